#!/usr/bin/env bash
# Runs the tests against the versions of PostgreSQL that they are meant for.
#
#   test/run.sh           everything on 15; what concerns positions and slots
#                         on 18 too
#   test/run.sh matrix    everything on 14 to 18, the long cases included
#   test/run.sh torture   TestTorture alone, as its variables say, on 15 or
#                         the version of OUTBOX_CDC_TEST_PG
#
# It ends with the summary lines of "go test". What is installed, fetched and
# started, and how long that took, is said while it happens.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# The packages whose tests talk to PostgreSQL; the others need to run only once.
# In the first two nearly everything concerns positions and slots, in the last
# what is named TestPosition... and TestSlot...
server_packages=(./checkpoint/... ./replication/...)
end_to_end=./test/integration/...
positions_and_slots='^Test(Position|Slot)'

longest=("$end_to_end" ./publisher/...)

# Lines of the harness go here: "go test" would keep them to itself until a
# package is done.
exec 3>&2
export OUTBOX_CDC_TEST_PROGRESS_FD=3

race=-race=false
cc=$(go env CC)
if command -v "${cc%% *}" >/dev/null; then
	export CGO_ENABLED=1
	race=-race=true
else
	echo "test: there is no C compiler ($cc), which the race detector needs; running without it" >&2
fi

status=0

# run VERSION ARGUMENT... is one "go test". Two packages run at once: they start
# servers, but mostly wait for them.
run() {
	local version=$1
	shift
	echo "==> PostgreSQL $version: go test $race $*" >&2
	OUTBOX_CDC_TEST_PG=$version go test $race -p=2 -count=1 -timeout=60m "$@" || status=1
}

# Unlike the tests, this uses all cores.
go build $race ./... || exit 1

case "${1:-}" in
"")
	# At the same time, as both mostly wait; what 18 has to say is printed
	# behind the rest.
	on18=$(mktemp)
	set -m # a process group of its own, to be ended with this script
	{
		run 18 "${server_packages[@]}"
		run 18 -run="$positions_and_slots" "$end_to_end"
		exit "$status"
	} >"$on18" 2>&1 &
	running18=$!
	set +m
	trap 'kill -- "-$running18" 2>/dev/null; rm -f "$on18"' EXIT
	run 15 "${longest[@]}" ./... # the longest first, so that the others run beside them
	wait "$running18" || status=1
	cat "$on18"
	;;
matrix)
	export OUTBOX_CDC_TEST_LONG=1
	run 15 ./...
	for version in 14 16 17 18; do
		run "$version" "${server_packages[@]}" "$end_to_end"
	done
	;;
torture)
	run "${OUTBOX_CDC_TEST_PG:-15}" -v -timeout=0 -run='^TestTorture$' "$end_to_end"
	;;
*)
	echo "usage: test/run.sh [matrix|torture]" >&2
	exit 2
	;;
esac
exit "$status"
