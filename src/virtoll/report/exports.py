"""What a paper takes over as text, by its file's name in the report's folder: tables and methods, in two markups."""

from collections.abc import Mapping

from virtoll.report.export_tables import export_tables
from virtoll.report.markup import latex_table, markdown_table
from virtoll.report.methods import methods_of
from virtoll.stats.analysis import Analysis


def export_texts(analysis: Analysis) -> Mapping[str, str]:
    """Each file's text by its path below the report's folder."""
    texts: dict[str, str] = {}
    for table in export_tables(analysis):
        texts[f"tables/{table.name}.md"] = markdown_table(table)
        texts[f"tables/{table.name}.tex"] = latex_table(table)
    methods = methods_of(analysis)
    return texts | {"methods.md": methods.markdown(), "methods.tex": methods.latex()}
