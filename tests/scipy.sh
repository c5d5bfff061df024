# Sourced by tests/run, after tests/schemathesis.sh: scipy from PyPI, in a virtual environment beside what is built. Sets
# CHOIRMASTER_TEST_SCIPY to the Python that has it.
# shellcheck shell=sh

scipy_version=1.16.3
numpy_version=2.3.5

scipy_say() { printf '%s\n' "tests: $*" >&2; }

scipy_find() {
    scipy_folder=${CARGO_TARGET_DIR:-$PWD/target}/scipy-$scipy_version
    if ! "$scipy_folder/bin/python" -c 'import scipy.stats' >/dev/null 2>&1; then
        schemathesis_python || return 1
        scipy_say "getting scipy $scipy_version from PyPI"
        # A half-made one of an earlier run is of no use.
        rm -rf "$scipy_folder"
        python3 -m venv "$scipy_folder" >&2 &&
            "$scipy_folder/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
                "scipy==$scipy_version" "numpy==$numpy_version" >&2 || return 1
    fi
    export CHOIRMASTER_TEST_SCIPY="$scipy_folder/bin/python"
}
