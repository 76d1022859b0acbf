# Shell functions of the run scripts. To be sourced, not run.

# help <script>: the comment at its head.
help() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$1"; }

# install_packages <package>...: installs through apt what is missing, and is silent if nothing is.
install_packages() {
  local missing=() package log sudo=()
  if ! command -v apt-get >/dev/null; then return 0; fi  # not Debian: CMake says what is missing
  for package in "$@"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then missing+=("$package"); fi
  done
  if ((${#missing[@]} == 0)); then return 0; fi
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "these packages are missing, and neither root nor sudo is here to install them: ${missing[*]}" >&2
      return 1
    fi
    sudo=(sudo)
  fi
  log=$(mktemp)
  stage "install ${missing[*]}" "$log" "${sudo[@]}" sh -c '
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q && apt-get install -q -y --no-install-recommends "$@"' sh "${missing[@]}"
  rm -f "$log"
}

# stage <title> <log file> <command>...: runs the command quietly and says on standard error how long it took; if it
# fails, shows the end of what it wrote, without the tests that passed.
stage() {
  local title=$1 log=$2 start=$SECONDS
  shift 2
  if "$@" </dev/null >"$log" 2>&1; then
    echo "$title: $((SECONDS - start)) s" >&2
  else
    grep -vE '^ +Start +[0-9]+: |   Passed  ' "$log" | tail -n 200 >&2
    echo "$title: FAILED after $((SECONDS - start)) s" >&2
    return 1
  fi
}
