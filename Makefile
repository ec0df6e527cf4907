# The commands of this project. Nothing has to be set up before them: servers
# that the machine lacks are installed or fetched into .cache by the first run.

.DEFAULT_GOAL := help
SHELL := /bin/bash

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

.PHONY: help
help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## rows in, records out, on real servers; KEEP=1 runs on, ORDERS=file.jsonl takes orders from a file
	@go build -o bin/demo ./test/demo && exec bin/demo $(if $(KEEP),-keep) $(if $(ORDERS),-orders '$(ORDERS)')

.PHONY: test
test: ## all tests on PostgreSQL 15, and those of positions and slots on 18 too
	@test/run.sh

.PHONY: test-matrix
test-matrix: ## all tests on PostgreSQL 14 to 18, at full length
	@test/run.sh matrix

.PHONY: torture
torture: ## faults under load: DURATION=10m SEED=1, FAULTS='names|of|them', SUMMARY=file.json
	@OUTBOX_CDC_TEST_TORTURE='$(or $(DURATION),10m)' OUTBOX_CDC_TEST_SEED='$(SEED)' OUTBOX_CDC_TEST_FAULTS='$(FAULTS)' \
	OUTBOX_CDC_TEST_SUMMARY='$(abspath $(SUMMARY))' test/run.sh torture

.PHONY: bench
bench: ## measure beside this machine's limit, in 10 minutes: CASE=regexp REPEAT=3 SCALE=1 PROFILE=directory
	@go build -o bin/bench ./bench && exec bin/bench -json bin/bench.json -svg bin/bench.svg $(BENCH)

.PHONY: bench-full
bench-full: ## measure the cases that take long
	@go build -o bin/bench ./bench && exec bin/bench -full -json bin/bench-full.json -svg bin/bench-full.svg $(BENCH)

bench bench-full: BENCH = $(if $(CASE),-case '$(CASE)') $(if $(REPEAT),-repeat $(REPEAT)) $(if $(SCALE),-scale $(SCALE)) $(if $(PROFILE),-profile '$(PROFILE)')

.PHONY: conformance
conformance: ## Debezium's outbox event router and outbox-cdc on the same rows; CASE=name for one, UPDATE=1 writes docs/debezium.md
	@go build -o bin/conformance ./test/conformance && exec bin/conformance $(if $(UPDATE),-update) $(if $(CASE),-case '$(CASE)')

.PHONY: lint
lint: ## formatting, go vet and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted with gofmt:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...

.PHONY: build
build: ## the static binary, bin/outbox-cdc
	VERSION=$(VERSION) deploy/build.sh bin/outbox-cdc

.PHONY: build-all
build-all: ## check that the binary builds for Linux, macOS and Windows
	@for os in linux darwin windows; do \
		echo "GOOS=$$os deploy/build.sh"; \
		GOOS=$$os deploy/build.sh /dev/null || exit 1; \
	done

.PHONY: up
up: ## start PostgreSQL, Kafka and outbox-cdc with Docker Compose
	docker compose up --build --detach

.PHONY: down
down: ## stop what "make up" started and remove its data
	docker compose down --volumes
