"""The commands of ``bandfall``, one module each, and the modules that they share."""
