#!/usr/bin/env bash
# What concerns devices, on a real GPU. Needs torch, numpy and pytest alone; run it from anywhere.
set -eu
cd "$(dirname "$0")/../.."
python3 -c 'import torch; assert torch.cuda.is_available(), "no CUDA device is present"; print(torch.__version__, torch.cuda.get_device_name())'
PYTHONPATH=course exec python3 -m pytest -q -c /dev/null --rootdir=. --noconftest -p no:cacheprovider tests/cuda/on_a_device.py "$@"
