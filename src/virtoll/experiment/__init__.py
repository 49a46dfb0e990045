"""From a YAML file to what is to be measured: a checked experiment (`parse`) and the order of its trials (`plan`)."""
