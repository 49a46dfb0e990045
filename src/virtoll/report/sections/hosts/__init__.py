"""Hosts: the hosts of a merged run, how ratios vary between them, and which of them stand out."""

from virtoll.report.section import Section
from virtoll.report.sections.hosts.page import hosts_values
from virtoll.report.sections.hosts.tables import DEVIATIONS, VARIATIONS

HOSTS = Section("hosts", hosts_values, title="Hosts", tables=(DEVIATIONS, VARIATIONS))
