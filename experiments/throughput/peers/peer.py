"""Starts one loader: peer.py MODULE.FUNCTION LIST ...; common.py says what follows."""

import importlib

import common

options = common.arguments()
module, function = options.loader.split(".")
getattr(importlib.import_module(module), function)(options)
