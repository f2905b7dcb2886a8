"""python -m maru doctor"""

import sys

from . import doctor

if __name__ == "__main__":
    sys.exit(doctor.main(sys.argv[1:]))
