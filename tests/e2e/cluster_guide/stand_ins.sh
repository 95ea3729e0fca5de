# What the guide's programs are in the test. What is left out altogether is in ELSEWHERE of guide.py.

ft() { python -m tests.warm_workers.ft "$@"; }
aws() { python -m tests.e2e.cluster_guide.aws "$@"; }

# The server's host is the first argument's value.
psql() { shift 2; "$POSTGRES/psql" -h 127.0.0.1 -p "$DB_PORT" "$@"; }
pg_dump() { shift 2; "$POSTGRES/pg_dump" -h 127.0.0.1 -p "$DB_PORT" "$@"; }

# kubectl itself. The test cluster has no OpenAPI to check fields by before they are sent (it checks them itself), takes
# no protobuf, in which `create secret` sends, and has no pods of Deployments: what is run in those is run here.
kubectl() {
  case " $* " in
    *" exec "*) while [ "$1" != -- ]; do shift; done; shift; "$@" ;;
    *" create secret "*) "$KUBECTL" "$@" --dry-run=client -o json | "$KUBECTL" create --validate=false -f - ;;
    *" apply "*) "$KUBECTL" "$@" --validate=false ;;
    *) "$KUBECTL" "$@" ;;
  esac
}

# Helm itself renders the release; its objects are applied.
helm() {
  [ "$1 $2 $3" = "upgrade --install dagster" ] || { echo "helm $*" >&2; return 1; }
  shift 4
  local words=() word
  for word in "$@"; do [ "$word" = --wait ] || words+=("$word"); done
  "$HELM" template dagster "$CHART" --skip-tests "${words[@]}" | kubectl apply -f -
}

curl() { command curl --noproxy '*' "${@/https:\/\/$HOST/$API}"; }
