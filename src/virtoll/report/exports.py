"""What a paper takes over as text, by its file's name in the report's folder: tables and methods, in two markups."""

from collections.abc import Mapping
from dataclasses import dataclass

from virtoll.report.export_tables import ExportTable, export_tables
from virtoll.report.markup import latex_table, markdown_table
from virtoll.report.methods import Methods, methods_of
from virtoll.stats.analysis import Analysis


@dataclass(frozen=True)
class Exports:
    """Tables and methods before they are written in a markup: the page has them too."""

    tables: tuple[ExportTable, ...]
    methods: Methods


def exports_of(analysis: Analysis) -> Exports:
    """What a paper takes over of a run."""
    return Exports(export_tables(analysis), methods_of(analysis))


def export_texts(exports: Exports) -> Mapping[str, str]:
    """Each file's text by its path below the report's folder."""
    texts: dict[str, str] = {}
    for table in exports.tables:
        texts[f"tables/{table.name}.md"] = markdown_table(table)
        texts[f"tables/{table.name}.tex"] = latex_table(table)
    return texts | {"methods.md": exports.methods.markdown(), "methods.tex": exports.methods.latex()}
