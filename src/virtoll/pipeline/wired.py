"""Nodes of a cluster that are wired together: a task gets the one that holds its guests and those of its testbed.

The label of a testbed's node is a feature of that node in Slurm, such as ``generator``. Another feature is shared by
all nodes that are wired to each other, such as ``pair1``. Main functions: ``refuse_unwired``, ``constraint``,
``placed``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from virtoll.errors import UsageError
from virtoll.experiment.topology import HostAddress

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.pipeline.slurm import SlurmNode


@dataclass(frozen=True)
class Placed:
    """The node of Slurm's that holds a task's guests, and the hosts of its testbed's nodes by their labels."""

    guests: str
    hosts: dict[str, HostAddress]


def refuse_unwired(experiment: Experiment, features: Sequence[str]) -> None:
    """UsageError where a testbed has nodes and no features say what is wired, or the other way round."""
    labels = experiment.testbed.nodes if experiment.testbed is not None else ()
    if labels and not features:
        raise UsageError(
            f"{experiment.file}: its testbed has the node {labels[0]!r}; give --wired with the features in Slurm that "
            "wired nodes share, such as --wired pair1,pair2"
        )
    if features and not labels:
        raise UsageError(
            f"--wired: {experiment.file} has no testbed with a node; write its generator's host as "
            "'{node: generator}', or leave --wired out"
        )
    both = sorted({*labels} & {*features})
    if both:
        raise UsageError(
            f"--wired: {both[0]!r} is a node of the testbed; give features that all nodes of a wiring share"
        )


def features_of(text: str) -> tuple[str, ...]:
    """The features of ``pair1,pair2``; UsageError where one is empty, there twice, or no word of Slurm's."""
    features = tuple(feature.strip() for feature in text.split(","))
    for feature in features:
        if not feature or features.count(feature) > 1 or any(not (char.isalnum() or char in "_.-") for char in feature):
            raise UsageError(f"--wired {text!r}: give features of Slurm's, each once, such as pair1,pair2")
    return features


def constraint(features: Sequence[str]) -> str:
    """What sbatch is asked for: nodes that all have one same of these features (a *matching OR*, see sbatch(1))."""
    return f"[{'|'.join(features)}]"


def placed(nodes: Sequence[SlurmNode], labels: Sequence[str], features: Sequence[str]) -> Placed:
    """Which node of a task is what; UsageError where Slurm's features do not say it."""
    names = ", ".join(node.name for node in nodes)
    if not any(all(feature in node.features for node in nodes) for feature in features):
        raise UsageError(f"nodes {names}: no feature of {', '.join(features)} is shared by all; see Slurm's 'Feature'")
    hosts: dict[str, HostAddress] = {}
    left = list(nodes)
    for label in labels:
        having = [node for node in nodes if label in node.features]
        if len(having) != 1 or having[0] not in left:
            raise UsageError(
                f"nodes {names}: one must have the feature {label!r} alone of these; see Slurm's 'Feature'"
            )
        left.remove(having[0])
        hosts[label] = HostAddress(ssh=having[0].host)
    if len(left) != 1:
        raise UsageError(f"nodes {names}: one is for the guests besides {', '.join(labels)}; see Slurm's 'Feature'")
    return Placed(left[0].name, hosts)
