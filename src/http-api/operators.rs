//! The calls of developers and operators without a connection, for what this manager itself shows to people.

use std::convert::Infallible;

use axum::{
    Router,
    body::Body,
    http::{Method, Request, Response},
};
use futures_util::future::BoxFuture;
use tower::ServiceExt as _;

use super::{
    Context,
    auth::{CallingOperator, Settings},
    guard::Admitted,
    operator_router,
    problem::Problem,
    rights,
    v1::audit::form::AuditPlace,
};

/// What developers and operators call. Clones are the same.
#[derive(Debug, Clone)]
pub struct Operators {
    router: Router,
    ctx: Context,
}

impl Operators {
    pub fn new(ctx: Context) -> Self {
        Self { router: operator_router(ctx.clone()), ctx }
    }

    /// Answers as to this caller, whose rights hold here as they do for calls from outside. No time is set for that; who drops the
    /// answer before it is there gives the call up.
    pub fn call(
        &self,
        mut request: Request<Body>,
        caller: CallingOperator,
    ) -> BoxFuture<'static, Response<Body>> {
        request.extensions_mut().insert(Admitted(caller));
        let answer = self.router.clone().oneshot(request);
        Box::pin(async move { answer.await.unwrap_or_else(|never: Infallible| match never {}) })
    }

    /// Who may do what.
    pub fn auth(&self) -> &Settings {
        &self.ctx.settings.auth
    }

    /// Whether a caller's token is good for a route, as the description of the API has it.
    pub fn allows(&self, caller: &CallingOperator, method: &Method, path: &str) -> bool {
        rights::check(caller, method, Some(path)).is_ok()
    }

    /// The end of the audit trail: what is read after this call shows all that happened before it.
    pub async fn place(&self) -> Result<String, Problem> {
        let end = self.ctx.engine.reader().audit_end().await?;
        Ok(end.map(|(seq, idx)| AuditPlace::at(seq, idx)).unwrap_or_default().to_string())
    }
}
