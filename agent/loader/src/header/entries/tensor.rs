//! The entry of one tensor: `{"dtype": ..., "shape": [...], "data_offsets": [begin, end]}`.
//!
//! The reference derives its reader, which therefore also takes `[dtype, shape, offsets]`, and the dtype as `{"F32": null}`, and skips
//! unknown fields. So does this one: a file must not load there and fail here.

use std::fmt;

use safetensors::Dtype;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};

use super::super::skipped::Skipped;
use super::super::{HeaderProblem, MAX_RANK, TensorInfo};
use super::Notes;

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Dtype,
    Shape,
    DataOffsets,
    #[serde(other)]
    Unknown,
}

pub(super) struct TensorSeed<'n> {
    pub(super) name: &'n str,
    pub(super) notes: &'n mut Notes,
}

impl TensorSeed<'_> {
    fn dtype(&mut self) -> DtypeSeed<'_> {
        DtypeSeed {
            name: self.name,
            notes: self.notes,
        }
    }

    fn shape(&mut self) -> ShapeSeed<'_> {
        ShapeSeed {
            name: self.name,
            notes: self.notes,
        }
    }

    fn tensor(&self, dtype: Dtype, shape: Vec<u64>, (begin, end): (u64, u64)) -> TensorInfo {
        TensorInfo {
            name: self.name.to_owned(),
            dtype,
            shape,
            begin,
            end,
        }
    }
}

impl<'de> DeserializeSeed<'de> for TensorSeed<'_> {
    type Value = TensorInfo;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TensorInfo, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TensorSeed<'_> {
    type Value = TensorInfo;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a tensor with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<TensorInfo, A::Error> {
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        while let Some(field) = fields.next_key()? {
            match field {
                Field::Dtype => {
                    once("dtype", dtype.as_ref())?;
                    dtype = Some(fields.next_value_seed(self.dtype())?);
                }
                Field::Shape => {
                    once("shape", shape.as_ref())?;
                    shape = Some(fields.next_value_seed(self.shape())?);
                }
                Field::DataOffsets => {
                    once("data_offsets", offsets.as_ref())?;
                    offsets = Some(fields.next_value()?);
                }
                Field::Unknown => {
                    fields.next_value::<Skipped>()?;
                }
            }
        }
        Ok(self.tensor(
            dtype.ok_or_else(|| de::Error::missing_field("dtype"))?,
            shape.ok_or_else(|| de::Error::missing_field("shape"))?,
            offsets.ok_or_else(|| de::Error::missing_field("data_offsets"))?,
        ))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut fields: A) -> Result<TensorInfo, A::Error> {
        let short = |found| de::Error::invalid_length(found, &"dtype, shape and data_offsets");
        let dtype = fields.next_element_seed(self.dtype())?;
        let dtype = dtype.ok_or_else(|| short(0))?;
        let shape = fields.next_element_seed(self.shape())?;
        let shape = shape.ok_or_else(|| short(1))?;
        let offsets = fields.next_element()?.ok_or_else(|| short(2))?;
        Ok(self.tensor(dtype, shape, offsets))
    }
}

fn once<T, E: de::Error>(field: &'static str, value: Option<&T>) -> Result<(), E> {
    value.map_or(Ok(()), |_| Err(E::duplicate_field(field)))
}

struct DtypeSeed<'n> {
    name: &'n str,
    notes: &'n mut Notes,
}

impl<'de> DeserializeSeed<'de> for DtypeSeed<'_> {
    type Value = Dtype;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Dtype, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DtypeSeed<'_> {
    type Value = Dtype;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a dtype as a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Dtype, E> {
        Dtype::deserialize(text.into_deserializer()).map_err(|_: de::value::Error| {
            self.notes.refuse(HeaderProblem::UnknownDtype {
                name: self.name.to_owned(),
                found: text.to_owned(),
            })
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Dtype, A::Error> {
        Dtype::deserialize(MapAccessDeserializer::new(fields))
    }
}

struct ShapeSeed<'n> {
    name: &'n str,
    notes: &'n mut Notes,
}

impl<'de> DeserializeSeed<'de> for ShapeSeed<'_> {
    type Value = Vec<u64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u64>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ShapeSeed<'_> {
    type Value = Vec<u64>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a shape as a list of dimensions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<u64>, A::Error> {
        let mut shape = Vec::new();
        while let Some(dimension) = elements.next_element()? {
            // Counted while reading: the rest of a list of millions is never stored
            if shape.len() >= MAX_RANK {
                return Err(self.notes.refuse(HeaderProblem::RankTooLarge {
                    name: self.name.to_owned(),
                    limit: MAX_RANK as u64,
                }));
            }
            shape.push(dimension);
        }
        Ok(shape)
    }
}
