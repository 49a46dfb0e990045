"""``virtoll image``: build, list and show guest images, and what they are made of."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, get_args

import typer

from virtoll.cli import complete
from virtoll.cli.groups import Cli
from virtoll.cli.output import say, show_table
from virtoll.errors import ImageError, UsageError

app = Cli(help="Guest images: the agent only, or with the workloads' tools.")

Name = Annotated[str, typer.Argument(metavar="IMAGE", help="tiny, debug or full.", autocompletion=complete.images)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def build(
    name: Name = "full",
    form: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORM",
            help="Make this form now (ext4, erofs, oci, tar), not at its first use. Repeatable.",
            autocompletion=complete.forms,
        ),
    ] = None,
    kernel: Annotated[
        bool, typer.Option("--kernel/--no-kernel", help="With the kernel that machines boot; containers need none.")
    ] = True,
    offline: Annotated[bool, typer.Option("--offline", help="Never use the network.")] = False,
) -> None:
    """Build an image in the cache.

    A run that needs one does so too. Once built, it needs no network any more.
    """
    from virtoll.image import FormName, image_bill, image_form, prepare_image

    for text in form or ():
        if text not in get_args(FormName):
            raise UsageError(f"there is no form {text!r} to be made; use one of {', '.join(get_args(FormName))}")
    image = prepare_image(name, kernel=kernel, offline=offline, progress=say)
    known: tuple[FormName, ...] = get_args(FormName)
    for form_name in known:
        if form_name in (form or ()):
            image_form(image, form_name, progress=say)
    image_bill(image, progress=say)
    say(f"image {image.name} {image.digest} is in {image.root.parent}")


@app.command("list")
def list_images(as_json: Json = False) -> None:
    """List the images, which of them are built, and their sizes."""
    from virtoll.image import IMAGES, prepare_image

    rows: list[dict[str, Any]] = []
    for name, title in IMAGES.items():
        row: dict[str, Any] = {"image": name, "title": title, "built": False, "bytes": None, "packages": None}
        try:
            image = prepare_image(name, offline=True)
        except ImageError as error:
            row["reason"] = str(error)
        else:
            packages = len((image.tools or {}).get("packages", {}))
            row |= {"built": True, "digest": image.digest, "bytes": image.size_bytes, "packages": packages}
        rows.append(row)
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return
    lines = []
    for row in rows:
        line = {"image": row["image"], "what is in it": row["title"], "built": row["built"], "MB": "-", "packages": "-"}
        if row["bytes"] is not None:
            line["MB"] = f"{row['bytes'] / 1e6:.1f}"
        if row["packages"] is not None:
            line["packages"] = row["packages"]
        lines.append(line)
    show_table(lines)


@app.command()
def show(name: Name = "full", as_json: Json = False) -> None:
    """Show what is in an image.

    Its forms with their hashes, its kernel, and every package with its version and licences.
    """
    from virtoll.image import made_forms, prepare_image, with_kernel_if_there

    image = with_kernel_if_there(prepare_image(name, offline=True), offline=True)
    parts = image.machine
    forms: dict[str, str] = {**image.digests, **(parts.digests if parts is not None else {})}
    forms.update({form.name: form.digest for form in made_forms(image)})
    kernel = None if parts is None else parts.kernel
    tools: dict[str, Any] = dict(image.tools or {})
    shown = {
        "image": image.name,
        "digest": image.digest,
        "root": str(image.root),
        "bytes": image.size_bytes,
        "agent_sha256": image.agent_sha256,
        "forms": forms,
        "kernel": kernel
        and {"package": kernel.package, "version": kernel.version, "sha256": kernel.sha256, "source": kernel.source},
        "tools": tools or None,
    }
    if as_json:
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")
        return
    lines = [f"{image.name} {image.digest}", f"root {image.root}", f"{image.size_bytes} bytes"]
    lines += [
        f"kernel {kernel.package} {kernel.version} ({kernel.source})"
        if kernel
        else "kernel none yet: machines alone need one"
    ]
    lines += [f"agent sha256:{image.agent_sha256}"]
    lines += [f"form {form} {digest}" for form, digest in forms.items()]
    for package, version in sorted(tools.get("packages", {}).items()):
        lines.append(f"{package} {version}: {', '.join(tools['licences'][package])}")
    sys.stdout.write("\n".join(lines) + "\n")


@app.command("sbom")
def bill(name: Name = "full") -> None:
    """Print what an image is made of, as CycloneDX.

    A bill of materials in JSON: the agent with its crates, every Debian package, and the kernel that machines boot,
    each with its version and digest. It is in the cache beside the image.
    """
    from virtoll.image import image_bill, prepare_image, with_kernel_if_there

    image = with_kernel_if_there(prepare_image(name, offline=True), offline=True)
    sys.stdout.write(image_bill(image).read_text(encoding="utf-8"))
