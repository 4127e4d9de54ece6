//! Properties of every plan over generated stores, and comparison with a slow, separate planner.

mod generate;
mod naive;
mod properties;
mod rules;
mod tenants;
