"""Write scikit-learn's handwritten digits as one small file that a unit carries.

    pip install scikit-learn
    python scripts/make_digits.py course/units/05_accumulating_gradients/digits.npy

Each row is one image: 64 grey values from 0 to 16, then its label. The file is a plain, uncompressed `.npy` of bytes,
so that it is the same on every machine and `numpy.load` reads it without pickle.
Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998
(CC BY 4.0).
"""

import sys
from pathlib import Path

import numpy
from sklearn.datasets import load_digits


def digits_table() -> numpy.ndarray:
    """The 1,797 images and their labels as one (1797, 65) table of bytes."""
    images, labels = load_digits(return_X_y=True)
    return numpy.column_stack([images, labels]).astype(numpy.uint8)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python scripts/make_digits.py FILE.npy")
    numpy.save(Path(sys.argv[1]), digits_table(), allow_pickle=False)
