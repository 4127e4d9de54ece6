//! The JSON of a header, entry by entry, so that nothing that was written twice is lost in a map.

mod metadata;
mod tensor;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};

use super::problem::printable;
use super::{HeaderProblem, MAX_NAME_LEN, TensorInfo};

/// The entry that describes the file and no tensor.
const METADATA_NAME: &str = "__metadata__";

type Entries = (BTreeMap<String, String>, Vec<TensorInfo>);

/// Reads the entries in the order they were written. Ranges are not looked at, and names may still repeat.
pub(super) fn read(text: &str, max_tensors: usize) -> Result<Entries, HeaderProblem> {
    let mut notes = Notes::default();
    let mut parser = serde_json::Deserializer::from_str(text);
    let seed = EntriesSeed {
        max_tensors,
        notes: &mut notes,
    };
    seed.deserialize(&mut parser)
        .and_then(|entries| parser.end().map(|()| entries))
        .map_err(|error| notes.into_problem(&error))
}

/// Notes beside a parser error: the entry it was in, or the problem of our own that it stands for.
#[derive(Default)]
struct Notes {
    entry: Option<String>,
    problem: Option<HeaderProblem>,
}

impl Notes {
    /// Stops the parser because of `problem`.
    fn refuse<E: de::Error>(&mut self, problem: HeaderProblem) -> E {
        let error = E::custom(&problem);
        self.problem = Some(problem);
        error
    }

    fn into_problem(self, error: &serde_json::Error) -> HeaderProblem {
        self.problem.unwrap_or_else(|| HeaderProblem::Json {
            entry: self.entry,
            detail: printable(&error.to_string()),
        })
    }
}

struct EntriesSeed<'n> {
    max_tensors: usize,
    notes: &'n mut Notes,
}

impl<'de> DeserializeSeed<'de> for EntriesSeed<'_> {
    type Value = Entries;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entries, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntriesSeed<'_> {
    type Value = Entries;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map from tensor names to tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Entries, A::Error> {
        let Self { max_tensors, notes } = self;
        let mut metadata = None;
        let mut tensors = Vec::new();
        while let Some(name) = fields.next_key::<String>()? {
            let result = if name == METADATA_NAME {
                read_metadata(&mut fields, &mut metadata, notes)
            } else {
                read_tensor(&mut fields, &mut tensors, (&name, max_tensors), notes)
            };
            if let Err(error) = result {
                notes.entry = Some(name);
                return Err(error);
            }
        }
        Ok((metadata.unwrap_or_default(), tensors))
    }
}

fn read_metadata<'de, A: MapAccess<'de>>(
    fields: &mut A,
    metadata: &mut Option<BTreeMap<String, String>>,
    notes: &mut Notes,
) -> Result<(), A::Error> {
    if metadata.is_some() {
        return Err(notes.refuse(HeaderProblem::DuplicateName {
            name: METADATA_NAME.to_owned(),
        }));
    }
    *metadata = Some(fields.next_value_seed(metadata::MetadataSeed { notes })?);
    Ok(())
}

fn read_tensor<'de, A: MapAccess<'de>>(
    fields: &mut A,
    tensors: &mut Vec<TensorInfo>,
    (name, max_tensors): (&str, usize),
    notes: &mut Notes,
) -> Result<(), A::Error> {
    // Any other text may be a name: the reference accepts the empty one and NUL as well.
    if name.len() > MAX_NAME_LEN {
        return Err(notes.refuse(HeaderProblem::LongName {
            name: name.to_owned(),
            found: name.len() as u64,
            limit: MAX_NAME_LEN as u64,
        }));
    }
    if tensors.len() >= max_tensors {
        return Err(notes.refuse(HeaderProblem::TooManyTensors {
            limit: max_tensors as u64,
        }));
    }
    tensors.push(fields.next_value_seed(tensor::TensorSeed { name, notes })?);
    Ok(())
}
