//! What every plan has to keep, over generated stores, and against a slow planner written otherwise.

mod generate;
mod naive;
mod properties;
mod rules;
