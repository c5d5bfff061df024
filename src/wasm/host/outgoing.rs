//! Whom calls may call: those that are named, over HTTP and HTTPS.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::{Request, Response, Uri};
use wasmtime_wasi_http::{Error, RequestOptions, Result, WasiBody, WasiHttpHooks, default_send_request};

use super::super::form::Destination;

/// Bytes of a body that are passed on at once.
const CHUNK: usize = 64 * 1024;

/// What an instance's outgoing calls go through.
#[derive(Debug)]
pub(super) struct Outgoing(pub Arc<[Destination]>);

impl Outgoing {
    fn allows(&self, uri: &Uri) -> bool {
        let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let Some(authority) = uri.authority() else { return false };
        let port = authority.port_u16().unwrap_or(usual);
        self.0.iter().any(|destination| destination.allows(authority.host(), port, usual))
    }
}

/// What a call that was sent ends with.
type Ending = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpHooks for Outgoing {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _answered: Ending,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Ending)>> + Send> {
        let is_allowed = self.allows(request.uri());
        Box::new(async move {
            if !is_allowed {
                return Err(Error::HttpRequestDenied);
            }
            let (response, ending) = default_send_request(request, options).await?;
            Ok((response.map(BodyExt::boxed_unsync), Box::new(ending) as Ending))
        })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK
    }
}
