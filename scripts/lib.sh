# What the scripts share. Sourced from the top of the tree, by bash with -euo pipefail.
# shellcheck shell=bash

# Debian names of what the library, the command and the tests are built with.
# shellcheck disable=SC2034  # used by those who source this
FOREBAY_PACKAGES=(cmake ninja-build g++ pkg-config libconcurrentqueue-dev libjpeg62-turbo-dev libturbojpeg0-dev
                  libpng-dev libdeflate-dev libwebp-dev libtiff-dev libtinyxml2-dev libcurl4-openssl-dev libavformat-dev
                  libswscale-dev libopenmpi-dev openmpi-bin libspdlog-dev
                  doctest-dev libtomlplusplus-dev libcli11-dev libhwy-dev nlohmann-json3-dev libxxhash-dev zlib1g-dev libjpeg-turbo-progs)

# For mpirun on one machine: more ranks than cores are allowed, and shared memory is the only transport.
# shellcheck disable=SC2034,SC2054
MPIRUN_FLAGS=(--oversubscribe --mca btl self,vader)
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

jobs() { nproc; }

# Every configure that follows compiles through ccache where there is one.
use_ccache() {
  if command -v ccache > /dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    # A preprocessed file leaves out what a kernel has for the device alone: only the sources decide.
    export CMAKE_CUDA_COMPILER_LAUNCHER="env;CCACHE_DEPEND=1;ccache"
    # Else what includes precompiled headers is compiled every time.
    export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}
    # What two build folders compile alike is compiled once.
    export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD}
  fi
}

# need_packages NAME...: installs the Debian packages that are missing, as root or through sudo.
need_packages() {
  if ! command -v dpkg-query > /dev/null; then
    echo "Not a Debian system: the equivalents of these packages are needed: $*" >&2
    return 0
  fi
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2> /dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    as_root=(sudo)
    [ -t 0 ] || as_root=(sudo -n)  # nobody there to type a password
    if ! "${as_root[@]}" true; then
      echo "These packages are missing and need root to install: apt-get install ${missing[*]}" >&2
      return 1
    fi
  fi
  echo "Installing ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300)
  local install=("${apt[@]}" install --no-install-recommends "${missing[@]}")
  # The package lists of a fresh machine are missing or old: then the first attempt fails, which costs a second.
  "${install[@]}" < /dev/null > /dev/null 2>&1 && return 0
  "${apt[@]}" update < /dev/null > /dev/null && "${install[@]}" < /dev/null > /dev/null && return 0
  echo "apt-get could not install: ${missing[*]}" >&2
  return 1
}
