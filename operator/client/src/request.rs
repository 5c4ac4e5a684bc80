//! Requests that carry their call.

use http::{HeaderMap, HeaderName, HeaderValue, Request};

use crate::{Attempt, Call};

/// The header by which a hedge says that it is one, and which: 1, 2, ... A primary has none, so a server may treat
/// requests with it as less urgent ([`ShedHedgesLayer`](crate::ShedHedgesLayer) does).
pub const ATTEMPT_HEADER: HeaderName = HeaderName::from_static("x-hedgerow-attempt");

/// A request that may be sent more than once, and that carries its call from layer to layer.
///
/// [`http::Request`] does both in its extensions, gRPC over `tonic` with it. Another type may leave the methods as they
/// are (`impl Hedgeable for MyRequest {}`): it is hedged all the same, but retry layers find no call in it, and retry
/// nothing.
pub trait Hedgeable: Clone {
    /// The call that the request belongs to, if it carries one.
    fn call(&self) -> Option<Call> {
        None
    }

    /// The attempt that the request is, if it carries one.
    fn attempt(&self) -> Option<Attempt> {
        None
    }

    /// Makes the request a part of `call`.
    fn set_call(&mut self, call: &Call) {
        let _ = call;
    }

    /// Makes the request this `attempt`, and says in `header` that it is a hedge, if it is.
    fn set_attempt(&mut self, attempt: &Attempt, header: &HeaderName) {
        let _ = (attempt, header);
    }
}

impl<B: Clone> Hedgeable for Request<B> {
    fn call(&self) -> Option<Call> {
        self.extensions().get().cloned()
    }

    fn attempt(&self) -> Option<Attempt> {
        self.extensions().get().cloned()
    }

    fn set_call(&mut self, call: &Call) {
        self.extensions_mut().insert(call.clone());
    }

    fn set_attempt(&mut self, attempt: &Attempt, header: &HeaderName) {
        attempt.mark_as(header, self.headers_mut());
        self.extensions_mut().insert(attempt.clone());
    }
}

impl Attempt {
    /// Says in [`ATTEMPT_HEADER`] that this is a hedge, if it is.
    pub fn mark(&self, headers: &mut HeaderMap) {
        self.mark_as(&ATTEMPT_HEADER, headers);
    }

    fn mark_as(&self, header: &HeaderName, headers: &mut HeaderMap) {
        if self.is_hedge() {
            headers.insert(header, HeaderValue::from(self.number));
        }
    }
}
