//! Decisions that can be reckoned on paper.
