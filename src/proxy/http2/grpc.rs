use http::HeaderMap;

/// Statuses of gRPC that speak of the version and not of the caller: `UNKNOWN`, `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED`,
/// `INTERNAL`, `UNAVAILABLE` and `DATA_LOSS`.
const OF_VERSION: [&[u8]; 6] = [b"2", b"4", b"8", b"13", b"14", b"15"];

/// Whether fields, of a head or behind a body, say that the version failed a call of gRPC.
pub(crate) fn is_failure(fields: &HeaderMap) -> bool {
    let status = fields.get("grpc-status");
    status.is_some_and(|status| OF_VERSION.contains(&status.as_bytes().trim_ascii()))
}
