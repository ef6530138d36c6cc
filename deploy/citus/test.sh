#!/usr/bin/env bash
# Runs the ledger's tests on a Citus cluster: deploy/citus/test.sh postgres://user:password@coordinator:5432/database
# What the schemas `tollgate` and `drizzle` of that database contain is deleted. Its nodes must be set up (distribute.sql).
set -euo pipefail
[[ $# == 1 ]] || { echo "usage: deploy/citus/test.sh URL (its ledger is deleted)" >&2; exit 2; }
cd "$(dirname "$0")/../.."
export TOLLGATE_TEST_URL="$1" TOLLGATE_TEST_SETUP="$PWD/deploy/citus/distribute.sql"
exec bun test --timeout=120000 test/ledger/{hold,end,terms,spending,idempotency,checkpoints}.test.ts
