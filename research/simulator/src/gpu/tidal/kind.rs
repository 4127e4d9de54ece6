//! Kinds of functions.

use serde::Serialize;

use super::costs::Base;

/// A kind of function: a base model, with or without adapters of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionKind {
    /// Base model.
    pub base: Base,
    /// True with an adapter that each request brings.
    pub dynamic: bool,
}

impl FunctionKind {
    /// The kinds of the evaluation, with four functions each.
    pub const ALL: [Self; 4] = [
        Self::new(Base::Llama3, false),
        Self::new(Base::Llama3, true),
        Self::new(Base::Llama2, false),
        Self::new(Base::Llama2, true),
    ];

    const fn new(base: Base, dynamic: bool) -> Self {
        Self { base, dynamic }
    }

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match (self.base, self.dynamic) {
            (Base::Llama3, false) => "Llama3-8B",
            (Base::Llama3, true) => "Llama3-8B-LoRA",
            (Base::Llama2, false) => "Llama2-13B",
            (Base::Llama2, true) => "Llama2-13B-LoRA",
        }
    }
}
