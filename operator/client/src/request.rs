//! Requests that carry their call.

use http::{HeaderMap, HeaderName, HeaderValue, Request};

use crate::{Attempt, Call};

/// The header by which a hedge says that it is one, and which: 1, 2, ... A primary has none, so a server may treat
/// requests with it as less urgent ([`ShedHedgesLayer`](crate::ShedHedgesLayer) does).
pub const ATTEMPT_HEADER: HeaderName = HeaderName::from_static("x-hedgerow-attempt");

/// A request that may be sent more than once, and that carries its call from layer to layer.
///
/// [`http::Request`] does both in its extensions, gRPC over `tonic` with it. Another type may leave the methods as they
/// are (`impl Hedgeable for MyRequest {}`): it is hedged all the same, but retry layers around the hedge find no call in
/// it, and retry nothing.
pub trait Hedgeable: Clone {
    /// The call that the request belongs to, if it carries one.
    fn call(&self) -> Option<Call> {
        None
    }

    /// The attempt that the request is: the one that it carries, or else [`Attempt::current`].
    fn attempt(&self) -> Option<Attempt> {
        Attempt::current()
    }

    /// Makes the request a part of `call`, and of no attempt yet.
    fn set_call(&mut self, call: &Call) {
        let _ = call;
    }

    /// Makes the request carry this `attempt`, where the layer says so ([`HedgeLayer::carried`](crate::HedgeLayer::carried)).
    fn set_attempt(&mut self, attempt: &Attempt) {
        let _ = attempt;
    }

    /// Says in `header` that the request is a hedge, if `attempt` is.
    fn mark(&mut self, attempt: &Attempt, header: &HeaderName) {
        let _ = (attempt, header);
    }
}

impl<B: Clone> Hedgeable for Request<B> {
    fn call(&self) -> Option<Call> {
        self.extensions().get().cloned()
    }

    fn attempt(&self) -> Option<Attempt> {
        let extensions = self.extensions();
        // A call that began within an attempt of another one is no part of that.
        let is_ours = |attempt: &Attempt| extensions.get().is_none_or(|call| attempt.call().is(call));
        let current = || Attempt::current().filter(is_ours);
        extensions.get().cloned().or_else(current)
    }

    fn set_call(&mut self, call: &Call) {
        self.extensions_mut().remove::<Attempt>();
        self.extensions_mut().insert(call.clone());
    }

    fn set_attempt(&mut self, attempt: &Attempt) {
        self.extensions_mut().insert(attempt.clone());
    }

    fn mark(&mut self, attempt: &Attempt, header: &HeaderName) {
        attempt.mark_as(header, self.headers_mut());
    }
}

impl Attempt {
    /// Says in [`ATTEMPT_HEADER`] that this is a hedge, if it is.
    pub fn mark(&self, headers: &mut HeaderMap) {
        self.mark_as(&ATTEMPT_HEADER, headers);
    }

    /// The same in a header of another name.
    pub fn mark_as(&self, header: &HeaderName, headers: &mut HeaderMap) {
        if self.is_hedge() {
            headers.insert(header, HeaderValue::from(self.number));
        }
    }
}
