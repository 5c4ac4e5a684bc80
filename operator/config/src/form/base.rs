//! The user's own document, and the names of places in it.

use super::RenderError;
use super::tree::{SameKey, Tree};

/// A ConfigMap holds no more.
const LARGEST: usize = 1 << 20;

/// The error of a base at a place.
pub(super) fn bad(at: &str, problem: impl Into<String>) -> RenderError {
    RenderError::Base {
        at: at.to_owned(),
        problem: problem.into(),
    }
}

/// Reads a base in JSON.
pub(super) fn read_json(base: &str) -> Result<Tree, RenderError> {
    read(base, Tree::from_json, "JSON, without comments")
}

/// Reads a base in YAML.
pub(super) fn read_yaml(base: &str) -> Result<Tree, RenderError> {
    read(base, Tree::from_yaml, "YAML, without tags and merge keys")
}

fn read(
    base: &str,
    parse: impl Fn(&str) -> Result<Tree, String>,
    language: &str,
) -> Result<Tree, RenderError> {
    if base.len() > LARGEST {
        return Err(bad(
            "base",
            format!("has {} bytes: a ConfigMap holds {LARGEST}", base.len()),
        ));
    }
    parse(base).map_err(|why| bad("base", format!("{why}: write it as {language}")))
}

/// The document as text; that of a tree cannot fail, and if it did nothing must be published.
pub(super) fn written(text: Result<String, String>) -> Result<String, RenderError> {
    text.map_err(|why| bad("base", why))
}

/// A value in the base and its place, such as `resources[0].virtual_hosts[1]`.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    pub(super) at: String,
    pub(super) tree: &'a Tree,
    same: SameKey,
}

impl<'a> Node<'a> {
    /// The whole base, of which `same` tells whether two keys name one field.
    pub(super) fn root(tree: &'a Tree, same: SameKey) -> Self {
        let at = String::new();
        Self { at, tree, same }
    }

    /// An error at this place.
    pub(super) fn bad(&self, problem: impl Into<String>) -> RenderError {
        bad(if self.at.is_empty() { "base" } else { &self.at }, problem)
    }

    /// The field `key`; `None` where it is missing or null.
    pub(super) fn field(&self, key: &str) -> Result<Option<Self>, RenderError> {
        let Tree::Map(map) = self.tree else {
            return Err(self.bad(format!("is no map, but should hold {key}")));
        };
        let mut found = map.iter().filter(|(known, _)| (self.same)(known, key));
        let Some((key, tree)) = found.next() else {
            return Ok(None);
        };
        if let Some((other, _)) = found.next() {
            return Err(self.bad(format!(
                "has both {key} and {other}, which are one field: take one away"
            )));
        }
        let at = if self.at.is_empty() {
            key.clone()
        } else {
            format!("{}.{key}", self.at)
        };
        let field = Self {
            at,
            tree,
            same: self.same,
        };
        Ok((*tree != Tree::Null).then_some(field))
    }

    /// The field `key`, which the base must have. `remedy` says what to do where it is missing.
    pub(super) fn needed(&self, key: &str, remedy: &str) -> Result<Self, RenderError> {
        self.field(key)?
            .ok_or_else(|| self.bad(format!("has no {key}: {remedy}")))
    }

    /// The value down a path of fields; `None` where one is missing.
    pub(super) fn path(&self, keys: &[&str]) -> Result<Option<Self>, RenderError> {
        let mut node = Some(self.clone());
        for key in keys {
            node = match node {
                Some(node) => node.field(key)?,
                None => return Ok(None),
            };
        }
        Ok(node)
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Result<Vec<Self>, RenderError> {
        let Tree::List(items) = self.tree else {
            return Err(self.bad("is no list"));
        };
        let item = |(at, tree)| Self {
            at: format!("{}[{at}]", self.at),
            tree,
            same: self.same,
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// The items of the list `key`, none where it is missing.
    pub(super) fn list(&self, key: &str) -> Result<Vec<Self>, RenderError> {
        self.field(key)?.map_or(Ok(Vec::new()), |list| list.items())
    }

    /// The text here.
    pub(super) fn text(&self) -> Result<&'a str, RenderError> {
        match self.tree {
            Tree::Text(text) => Ok(text),
            _ => Err(self.bad("is no text")),
        }
    }
}

/// Keys that name one field only where they are the same.
pub(super) fn exactly(a: &str, b: &str) -> bool {
    a == b
}
