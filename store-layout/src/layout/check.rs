//! Conditions between the fields of a layout.

use std::collections::HashSet;

use super::{
    Layout, LayoutTensor, MAX_LAYOUT_ATTRIBUTES, MAX_LAYOUT_LEN, MAX_LAYOUT_RANK,
    MAX_LAYOUT_SOURCES, MAX_LAYOUT_TENSORS,
};
use crate::error::DecodeError;
use crate::manifest::MAX_OBJECTS;

impl Layout {
    /// Checks everything that LAYOUT.md 3.7 demands of the entries.
    ///
    /// # Errors
    /// The first field that is not so.
    pub fn check(&self) -> Result<(), DecodeError> {
        for (field, found, limit) in [
            ("source count", self.sources.len(), MAX_LAYOUT_SOURCES),
            ("object count", self.objects.len(), MAX_OBJECTS),
            ("tensor count", self.tensors.len(), MAX_LAYOUT_TENSORS),
            (
                "attribute count",
                self.attributes.len(),
                MAX_LAYOUT_ATTRIBUTES,
            ),
        ] {
            if found > limit {
                return Err(DecodeError::field(field, format!("at most {limit}"), found));
            }
        }
        let values = self.attributes.values().map(|value| value.len() as u64);
        if values.sum::<u64>() > MAX_LAYOUT_LEN {
            let expected = format!("at most {MAX_LAYOUT_LEN} bytes");
            return Err(DecodeError::field("attributes", expected, "more"));
        }
        let mut names = HashSet::with_capacity(self.tensors.len());
        let mut used = 0;
        for (index, tensor) in self.tensors.iter().enumerate() {
            if !names.insert(tensor.name.as_str()) {
                let found = tensor.name.escape_debug();
                return Err(DecodeError::field("tensor name", "distinct", found));
            }
            self.check_place(tensor)?;
            self.check_alias(index, tensor)?;
            // Objects stand in the order in which tensors first need them: there is one encoding.
            if let Some(place) = tensor.place {
                if place.object > used {
                    let expected = format!("at most {used}");
                    return Err(DecodeError::field("object index", expected, place.object));
                }
                used = used.max(place.object.saturating_add(1));
            }
        }
        if used as usize != self.objects.len() {
            return Err(DecodeError::field("object count", used, self.objects.len()));
        }
        let distinct: HashSet<_> = self.objects.iter().map(|object| object.id).collect();
        if distinct.len() != self.objects.len() {
            return Err(DecodeError::field("objects", "distinct", "one twice"));
        }
        Ok(())
    }

    fn check_place(&self, tensor: &LayoutTensor) -> Result<(), DecodeError> {
        if tensor.strides.len() != tensor.shape.len() || tensor.shape.len() > MAX_LAYOUT_RANK {
            let (expected, found) = (tensor.shape.len(), tensor.strides.len());
            return Err(DecodeError::field("number of strides", expected, found));
        }
        let whole_bytes = tensor.dtype.bits().is_multiple_of(8);
        let contiguous = || LayoutTensor::contiguous_strides(&tensor.shape);
        if !whole_bytes && contiguous().as_deref() != Some(tensor.strides.as_slice()) {
            let expected = "contiguous, as elements are smaller than a byte";
            return Err(DecodeError::field("strides", expected, "others"));
        }
        let Some(extent) = tensor.extent() else {
            let expected = "a whole number of bytes below 2^64";
            let found = format!("{:?} with strides {:?}", tensor.shape, tensor.strides);
            return Err(DecodeError::field("dimensions", expected, found));
        };
        let Some(place) = tensor.place else {
            return if extent == 0 {
                Ok(())
            } else {
                Err(DecodeError::field("object of a tensor", "an index", "none"))
            };
        };
        let object = self.objects.get(place.object as usize);
        let object = object
            .ok_or_else(|| DecodeError::field("object index", self.objects.len(), place.object))?;
        let end = place.offset.checked_add(extent);
        if extent > 0 && end.is_some_and(|end| end <= object.len) {
            return Ok(());
        }
        let found = format!("{extent} bytes at {}", place.offset);
        let expected = format!("inside an object of {} bytes", object.len);
        Err(DecodeError::field("place of a tensor", expected, found))
    }

    /// An alias is of the first tensor with that memory, so that each piece of memory has one.
    fn check_alias(&self, index: usize, tensor: &LayoutTensor) -> Result<(), DecodeError> {
        let Some(alias) = tensor.alias else {
            return Ok(());
        };
        let first = self
            .tensors
            .get(..index)
            .and_then(|earlier| earlier.get(alias as usize));
        let object = |tensor: &LayoutTensor| Some(tensor.place?.object);
        match first {
            Some(first)
                if first.alias.is_none()
                    && object(first) == object(tensor)
                    && tensor.place.is_some() =>
            {
                Ok(())
            }
            _ => {
                let expected = "an earlier tensor in the same object, which is no alias";
                Err(DecodeError::field("alias", expected, alias))
            }
        }
    }
}
