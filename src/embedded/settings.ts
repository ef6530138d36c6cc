import type { Cluster } from "./cluster.ts"

/**
 * The settings of the embedded server, as arguments: nothing in the cluster's own files overrides the command line.
 * Only a server that is not `durable` may lose at a power cut what it has acknowledged.
 */
export function settings(cluster: Cluster, socket_folder: string, durable: boolean): string[] {
  const entries: Record<string, string | number> = {
    // Whoever can open the socket is trusted, so only the runner's folder leads to it.
    listen_addresses: "",
    unix_socket_directories: socket_folder,
    unix_socket_permissions: "0700",
    cluster_name: cluster.name,
    fsync: durable ? "on" : "off",
    full_page_writes: durable ? "on" : "off",
    synchronous_commit: "on",
    // A process takes some twenty, more while some are given up for new ones; up to 16 workers share a server.
    max_connections: 500,
    shared_buffers: "128MB",
    max_wal_size: "1GB",
    // Each checkpoint makes the log hold the few hot pages whole once more; a recovery reads max_wal_size at most.
    checkpoint_timeout: "15min",
    // A ledger's pages are in memory: the reading processes of Postgres 18 would only take room.
    io_method: "sync",
    max_logical_replication_workers: 0,
    // Every statement is short: compiling one takes longer than running it.
    jit: "off",
    timezone: "UTC",
    log_timezone: "UTC",
    // A statement's failure is the gateway's to report; here its text and its rows would be written down.
    log_min_messages: "log",
    log_min_error_statement: "panic",
    log_error_verbosity: "terse",
    log_checkpoints: "off",
  }
  return Object.entries(entries).flatMap(([name, value]) => ["-c", `${name}=${value}`])
}
