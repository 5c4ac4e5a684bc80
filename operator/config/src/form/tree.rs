//! A document as a value that keeps the order of its keys.

use std::fmt;

use indexmap::IndexMap;
use indexmap::map::Entry;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// A JSON or YAML value. People compare documents with their bases, so keys stay in the order of the base; a key that comes
/// twice is refused, since readers disagree on which of the two holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Tree>),
    Map(IndexMap<String, Tree>),
}

/// Whether two keys name the same field, by the rules of who reads the document.
pub(super) type SameKey = fn(&str, &str) -> bool;

impl Tree {
    pub(super) fn map<const N: usize>(entries: [(&str, Self); N]) -> Self {
        Self::Map(entries.map(|(key, value)| (key.to_owned(), value)).into())
    }

    pub(super) fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|why| why.to_string())
    }

    /// Reads YAML as Envoy does: `yes` is a boolean, `010` is 8, and `1_000` a text. What Envoy would not take (merge
    /// keys, tags, two documents) is refused, and so is what would grow out of bounds.
    pub(super) fn from_yaml(text: &str) -> Result<Self, String> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_nodes: 200_000, max_aliases: 1_000 },
            duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
            merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 20_000 },
            legacy_octal_numbers: true,
            underscored_numbers_as_strings: true,
            reject_unsupported_tags: true,
            with_snippet: false,
        };
        serde_saphyr::from_str_with_options(text, options).map_err(|why| why.to_string())
    }

    /// Indented JSON with a newline at the end.
    pub(super) fn to_json(&self) -> Result<String, String> {
        let json = serde_json::to_string_pretty(self).map_err(|why| why.to_string())?;
        Ok(json + "\n")
    }

    /// YAML in which every text that some reader takes for something else is quoted.
    pub(super) fn to_yaml(&self) -> Result<String, String> {
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        serde_saphyr::to_string_with_options(self, options).map_err(|why| why.to_string())
    }

    /// The value of `key`, made where there is none. What is no map becomes one.
    pub(super) fn entry(&mut self, key: &str, same: SameKey) -> &mut Self {
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(IndexMap::new());
        }
        let Self::Map(map) = self else { return self };
        let key = map
            .keys()
            .find(|known| same(known, key))
            .map_or(key, |known| known)
            .to_owned();
        map.entry(key).or_insert(Self::Null)
    }

    /// The value at `path`, made where there is none.
    pub(super) fn at(&mut self, path: &[&str], same: SameKey) -> &mut Self {
        path.iter().fold(self, |tree, key| tree.entry(key, same))
    }

    /// The items of a list, none of anything else.
    pub(super) fn items_mut(&mut self) -> &mut [Self] {
        match self {
            Self::List(items) => items,
            _ => &mut [],
        }
    }
}

impl From<u32> for Tree {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<f64> for Tree {
    /// Null is what is no number.
    fn from(number: f64) -> Self {
        Number::from_f64(number).map_or(Self::Null, Self::Number)
    }
}

impl From<bool> for Tree {
    fn from(bool: bool) -> Self {
        Self::Bool(bool)
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E: Error>(self, bool: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(bool))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Tree, E> {
        let finite = Number::from_f64(number).map(Tree::Number);
        finite.ok_or_else(|| E::custom(format!("{number} is no number of JSON")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut map = IndexMap::new();
        while let Some((key, value)) = entries.next_entry::<String, Tree>()? {
            match map.entry(key) {
                Entry::Occupied(entry) => {
                    return Err(A::Error::custom(format!("the key {:?} comes twice", entry.key())));
                }
                Entry::Vacant(entry) => entry.insert(value),
            };
        }
        Ok(Tree::Map(map))
    }
}
