//! What an HTTP response means. Pure.

use std::time::Duration;

use hedgerow_tuner::UnknownReason;

use crate::answer;
use crate::failure::{Failure, quote};

/// The most that a source may make us wait.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// A response, read to its end.
#[derive(Debug, Default)]
pub(crate) struct Response {
    /// The status code.
    pub(crate) status: u16,
    /// `Content-Type`, lower case.
    pub(crate) content_type: String,
    /// `Content-Encoding`, where it is not plain.
    pub(crate) encoding: Option<String>,
    /// `Retry-After`, as it was written.
    pub(crate) retry_after: Option<String>,
    /// The server's time in milliseconds since the epoch, where it says so.
    pub(crate) server_ms: Option<i64>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The body of a response that may be decoded, or what is wrong.
    pub(crate) fn into_body(self) -> Result<Vec<u8>, Failure> {
        if let Some(encoding) = &self.encoding {
            return Err(Failure::new(
                UnknownReason::BadResponse,
                format!(
                    "the answer is compressed ({}), which was not asked for",
                    quote(encoding)
                ),
            ));
        }
        if self.status == 200 {
            return if self.is_page() {
                Err(Failure::new(
                    UnknownReason::BadResponse,
                    "the answer is a web page (status 200): a login page or a user interface; give the base URL of the \
                     Prometheus API and credentials that need no login",
                ))
            } else {
                Ok(self.body)
            };
        }
        Err(self.failure())
    }

    fn failure(&self) -> Failure {
        let status = self.status;
        let told = (!self.is_page())
            .then(|| answer::told_error(&self.body))
            .flatten();
        match status {
            300..=399 => Failure::new(
                UnknownReason::BadResponse,
                format!(
                    "the source redirects (status {status}), which is not followed so that credentials stay where they \
                     belong; give the final URL, or credentials if it redirects to a login page"
                ),
            ),
            401 | 403 => Failure::new(
                UnknownReason::Unauthorized,
                format!(
                    "the source refuses our credentials (status {status}); check the source's authentication and \
                     tenant header"
                ),
            ),
            400 | 413 | 422 => {
                if let Some((kind, error)) = told {
                    let kind = if kind.is_empty() { "bad_data" } else { &kind };
                    return answer::refused(kind, &error);
                }
                let said = if self.is_page() {
                    String::new()
                } else {
                    format!(": {}", quote(&String::from_utf8_lossy(&self.body)))
                };
                Failure::new(
                    UnknownReason::QueryInvalid,
                    format!("the source refuses the query (status {status}){said}"),
                )
            }
            404 => Failure {
                not_there: true,
                ..Failure::new(
                    UnknownReason::BadResponse,
                    "there is no such Prometheus API at this URL (status 404); check the source's URL and its path",
                )
            },
            429 => self.waiting(Failure::new(
                UnknownReason::Throttled,
                "the source asks for fewer requests (status 429); raise its limit or the policies' intervals",
            )),
            500..=599 => self.waiting(match told {
                Some((kind, error)) if kind == "timeout" || kind == "canceled" => {
                    answer::refused(&kind, &error)
                }
                Some((_, error)) => Failure::new(
                    UnknownReason::Unavailable,
                    format!(
                        "the source fails (status {status}): {}; see its log",
                        quote(&error)
                    ),
                ),
                None => Failure::new(
                    UnknownReason::Unavailable,
                    format!(
                        "the source fails (status {status}); see its log, or that of the proxy before it"
                    ),
                ),
            }),
            _ => Failure::new(
                UnknownReason::BadResponse,
                format!(
                    "the source answers with status {status}, which the Prometheus API does not use; check its URL"
                ),
            ),
        }
    }

    /// `failure`, with the wait that the source asks for.
    fn waiting(&self, failure: Failure) -> Failure {
        let wait = self.retry_after.as_deref().and_then(|text| {
            let text = text.trim();
            text.parse().ok().map(Duration::from_secs).or_else(|| {
                let until = http_date_ms(text)?;
                let now = self.server_ms?;
                u64::try_from(until.saturating_sub(now))
                    .ok()
                    .map(Duration::from_millis)
            })
        });
        Failure {
            retry_after: wait.map(|wait| wait.min(LONGEST_WAIT)),
            ..failure
        }
    }

    fn is_page(&self) -> bool {
        self.content_type.starts_with("text/html") || self.body.trim_ascii_start().starts_with(b"<")
    }
}

/// An HTTP date (`Sun, 06 Nov 1994 08:49:37 GMT`) in milliseconds since the epoch.
pub(crate) fn http_date_ms(text: &str) -> Option<i64> {
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(date.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: u16, content_type: &str, body: &str) -> Failure {
        Response {
            status,
            content_type: content_type.into(),
            body: body.into(),
            ..Response::default()
        }
        .into_body()
        .unwrap_err()
    }

    const THANOS_NO_STORE: &str = r#"{"status":"error","errorType":"execution","error":"expanding series: proxy Series(): rpc error: code = Aborted desc = No StoreAPIs matched for this query"}"#;
    const MIMIR_MAX_CHUNKS: &str = "the query exceeded the maximum number of chunks (limit: 30 chunks) (err-mimir-max-chunks-per-query). Consider reducing the time range and/or number of series selected by the query. One way to reduce the number of selected series is to add more label matchers to the query. Otherwise, to adjust the related per-tenant limit, configure -querier.max-fetched-chunks-per-query, or contact your service administrator.";
    const NGINX_401: &str = "<html>\n<head><title>401 Authorization Required</title></head>\n<body>\n<center><h1>401 Authorization Required</h1></center>\n<hr><center>nginx/1.25.5</center>\n</body>\n</html>\n";

    #[test]
    fn a_refused_query_says_why_in_at_most_two_hundred_characters() {
        let thanos = failure(422, "application/json", THANOS_NO_STORE);
        assert_eq!(thanos.reason, UnknownReason::QueryInvalid);
        assert!(thanos.message.contains("No StoreAPIs matched"));
        let mimir = failure(422, "text/plain", MIMIR_MAX_CHUNKS);
        assert_eq!(mimir.reason, UnknownReason::QueryInvalid);
        assert!(mimir.message.contains("maximum number of chunks") && mimir.message.chars().count() < 260);
    }

    #[test]
    fn refused_credentials_are_unauthorized_and_no_body_is_told() {
        for (kind, body) in [("text/plain", "no org id"), ("text/html", NGINX_401)] {
            for status in [401, 403] {
                let failure = failure(status, kind, body);
                assert_eq!(failure.reason, UnknownReason::Unauthorized);
                assert!(!failure.message.contains("nginx") && !failure.message.contains("org id"));
            }
        }
    }

    #[test]
    fn pages_and_redirects_are_bad_responses() {
        assert_eq!(
            failure(200, "text/html; charset=utf-8", "<p>Sign in").reason,
            UnknownReason::BadResponse
        );
        assert_eq!(failure(302, "", "").reason, UnknownReason::BadResponse);
        assert_eq!(
            failure(404, "text/plain", "404 page not found").reason,
            UnknownReason::BadResponse
        );
        assert_eq!(failure(418, "", "").reason, UnknownReason::BadResponse);
        let page = failure(400, "text/html", "<p>secret");
        assert!(!page.message.contains("secret"));
    }

    #[test]
    fn an_agent_cannot_query() {
        let body =
            r#"{"status":"error","errorType":"execution","error":"unavailable with Prometheus Agent"}"#;
        assert_eq!(
            failure(422, "application/json", body).reason,
            UnknownReason::BackendCannotQuery
        );
    }

    #[test]
    fn failing_and_busy_sources_are_transient() {
        assert_eq!(failure(429, "", "").reason, UnknownReason::Throttled);
        for status in [500, 502, 503, 504] {
            assert_eq!(failure(status, "", "").reason, UnknownReason::Unavailable);
        }
        let timed_out =
            r#"{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}"#;
        assert_eq!(
            failure(503, "application/json", timed_out).reason,
            UnknownReason::Timeout
        );
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_at_most_five_minutes() {
        let wait = |text: &str| {
            let response = Response {
                status: 503,
                retry_after: Some(text.into()),
                server_ms: http_date_ms("Sun, 06 Nov 1994 08:49:37 GMT"),
                ..Response::default()
            };
            response.into_body().unwrap_err().retry_after
        };
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(
            wait("Sun, 06 Nov 1994 08:50:00 GMT"),
            Some(Duration::from_secs(23))
        );
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), None);
        assert_eq!(wait("86400"), Some(LONGEST_WAIT));
        assert_eq!(wait("soon"), None);
    }

    #[test]
    fn an_unasked_compression_is_named() {
        let response = Response {
            status: 200,
            encoding: Some("gzip".into()),
            ..Response::default()
        };
        assert!(response.into_body().unwrap_err().message.contains("gzip"));
    }
}
