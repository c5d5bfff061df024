//! Orders to routers: put, and waited for.

use std::io::Write;

use reqwest::Method;

use super::form;
use crate::cli::{client::Client, failure::Failure, show};
use protocol::api::{OrderRequest, RouterOrder};

/// Puts an order to a router and prints what comes of it. 1: it failed, or nobody has answered.
pub async fn put(
    client: &Client,
    (router, what): (&str, &str),
    body: &OrderRequest,
    (wait, as_json): (&str, bool),
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let request = client.request(Method::POST, &["api", "v1", "routers", router, what]);
    let order: RouterOrder = client.post(request.query(&[("wait", wait)]).json(body)).await?;
    if as_json {
        show::json(out, &order)?;
    } else {
        form::order(out, &order)?;
    }
    Ok(u8::from(order.state != "done"))
}
