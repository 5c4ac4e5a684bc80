//! The API server's audit log: the witness of who wrote what.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// What is recorded: bodies of the objects that the operator writes, and who did what of all else.
pub(crate) const POLICY: &str = include_str!("../node/conf/audit.yaml");

/// Reads an audit log.
#[derive(Clone, Debug)]
pub struct Audit {
    log: PathBuf,
}

/// A place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(u64);

/// One request that the API server answered.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The path and query that were asked for.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    user: User,
    /// The object, for requests that name a resource.
    #[serde(default)]
    pub object_ref: ObjectReference,
    response_status: Option<Status>,
    /// The body, for writes of the kinds that are recorded in full.
    #[serde(default)]
    pub request_object: Value,
    /// RFC 3339, to the microsecond; so sorts as text.
    #[serde(rename = "requestReceivedTimestamp")]
    pub received: String,
}

/// The object of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// The API group; empty for the core.
    pub api_group: String,
    /// The plural (`configmaps`).
    pub resource: String,
    /// `status` and the like; else empty.
    pub subresource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The name; empty for collections and creations that leave it to the server.
    pub name: String,
}

#[derive(Clone, Debug, Deserialize)]
struct User {
    username: String,
    #[serde(default)]
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    code: u16,
}

impl AuditEvent {
    /// Who asked.
    pub fn user(&self) -> &str {
        &self.user.username
    }

    /// Which credential was shown, for ServiceAccount tokens ([`Operator::credential`](crate::Operator::credential)): of
    /// several processes with the same ServiceAccount each has a token of its own.
    pub fn credential(&self) -> Option<&str> {
        let ids = self
            .user
            .extra
            .get("authentication.kubernetes.io/credential-id")?;
        ids.first().map(String::as_str)
    }

    /// The HTTP status of the answer; 0 when the request was cut short.
    pub fn code(&self) -> u16 {
        self.response_status.as_ref().map_or(0, |status| status.code)
    }

    /// Whether it was a request to change something.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether the API server did what was asked.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code())
    }
}

impl Audit {
    pub(crate) fn new(log: &Path) -> Self {
        Self { log: log.to_owned() }
    }

    /// The end of the log as it is now.
    ///
    /// # Errors
    /// When there is no log.
    pub fn mark(&self) -> Result<Mark> {
        Ok(Mark(self.whole_lines(Mark::default())?.len().try_into()?))
    }

    /// What was answered since `mark` (`Mark::default()` is the beginning). The API server writes an event before it
    /// answers, so whoever has seen an answer finds its event here.
    ///
    /// # Errors
    /// When the log cannot be read, or holds what is not an event.
    pub fn since(&self, mark: Mark) -> Result<Vec<AuditEvent>> {
        self.naming("", mark)
    }

    /// The same of events that have this text in them, a namespace or a user for instance. The log of a run is long and is read
    /// often, and most of it is about other tests: that is not parsed.
    ///
    /// # Errors
    /// As [`since`](Self::since).
    pub fn naming(&self, text: &str, mark: Mark) -> Result<Vec<AuditEvent>> {
        self.whole_lines(mark)?
            .lines()
            .filter(|line| line.contains(text))
            .map(|line| serde_json::from_str(line).with_context(|| format!("not an audit event: {line}")))
            .collect()
    }

    /// The writes since `mark` by `user`, refused ones included.
    ///
    /// # Errors
    /// As [`since`](Self::since).
    pub fn writes_by(&self, user: &str, mark: Mark) -> Result<Vec<AuditEvent>> {
        let mut events = self.by(user, mark)?;
        events.retain(AuditEvent::is_write);
        Ok(events)
    }

    /// What `user` has asked for since `mark`, refused requests included.
    ///
    /// # Errors
    /// As [`since`](Self::since).
    pub fn by(&self, user: &str, mark: Mark) -> Result<Vec<AuditEvent>> {
        let mut events = self.naming(user, mark)?;
        events.retain(|event| event.user() == user);
        Ok(events)
    }

    /// The text from `mark` to the end of the last line that is written to its end.
    fn whole_lines(&self, mark: Mark) -> Result<String> {
        let mut log =
            File::open(&self.log).with_context(|| format!("no audit log {}", self.log.display()))?;
        log.seek(SeekFrom::Start(mark.0))?;
        let mut text = String::new();
        log.read_to_string(&mut text)?;
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        Ok(text)
    }
}
