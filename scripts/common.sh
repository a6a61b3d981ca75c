# Sourced by the scripts beside it: the repository's root, steps with their elapsed time, how many jobs a build may use.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

script_start=$SECONDS

# say TEXT: one line of what this script does, with the time since its start.
say() { printf '[%3ds] %s\n' $((SECONDS - script_start)) "$*"; }

# die TEXT...: an error, a line an argument, and the end.
die() {
  printf 'error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

# build_jobs: a job for each usable core, fewer where memory is short (a compilation takes up to 1 GiB).
build_jobs() {
  local cores gibibytes
  cores=$(nproc)
  gibibytes=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
  [ "$gibibytes" -ge 1 ] || gibibytes=1
  if [ "$gibibytes" -lt "$cores" ]; then echo "$gibibytes"; else echo "$cores"; fi
}

# Many files are compiled as one: a third of the time. `scripts/lint --alone` compiles each by itself.
joined_files=(-Dunity=on -Dunity_size=16)

# What is handed out: libraries are linked in; fmt, of which Debian has no static library, is compiled in.
as_released=(--buildtype=release -Dprefix=/usr -Dprefer_static=true -Dcpp_args=-DFMT_HEADER_ONLY '-Dcpp_link_args=-static-libstdc++ -static-libgcc'
  "${joined_files[@]}")
case $(uname -m) in x86_64 | aarch64) as_released+=(-Dold_glibc=enabled) ;; esac

# The folder of the build that the demo runs and that packages are made of. `.ci/run` names build/test: the tests' program is compiled by the same commands.
release_folder=${DSANALYZE_RELEASE_FOLDER:-build/release}

# configure_release: the program, without what only tests need.
configure_release() { configure "$release_folder" "${as_released[@]}" -Dtests=disabled -Dbench=disabled; }

# configure_test: build/test. What is tested is what is handed out.
configure_test() { configure build/test "${as_released[@]}" -Dtests=enabled -Dwerror=true; }

# configure FOLDER OPTION...: meson setup, once; again when there is an MPI that was not there, or another one.
configure() {
  local folder=$1
  shift
  if [ ! -f "$folder/build.ninja" ]; then
    say "configure $folder"
    mkdir -p "$(dirname "$folder")"
  elif [ "$(mpi_of_system)" = "$(cat "$folder/mpi-of-system" 2>/dev/null)" ]; then
    say "configure $folder: already done"
    return
  else
    say "configure $folder: again, as the system's MPI has changed"
    set -- --reconfigure
  fi
  meson setup "$folder" "$@" >"$folder.log" 2>&1 || { cat "$folder.log" >&2; die "meson setup $folder failed (above)"; }
  rm -f "$folder.log"
  mpi_of_system >"$folder/mpi-of-system"
}

# mpi_of_system: what Meson would find of MPI, which is all that a build can do without.
mpi_of_system() {
  pkg-config --modversion ompi-cxx 2>/dev/null || true
  command -v mpicxx || true
}
