#!/bin/sh
# Builds the static binary as it is released.
#
#   deploy/build.sh OUTPUT
#
# VERSION is what "outbox-cdc version" prints. TAGS are further build tags, such
# as profile. The tags that are always there leave out what the
# binary does not use: HTTP/2 on the metrics port, the command line library's
# manual page writer, and pgx's table from types of Go to those of PostgreSQL:
# it is for statements whose parameters the server is not asked about, and ours
# are prepared, or have texts for parameters.
set -eu
cd "$(dirname "$0")/.."
CGO_ENABLED=0 exec go build -trimpath -tags nethttpomithttp2,nopgxregisterdefaulttypes,urfave_cli_no_docs${TAGS:+,$TAGS} \
	-ldflags "-s -w -X main.version=${VERSION:-}" -o "$1" ./cmd/outbox-cdc
