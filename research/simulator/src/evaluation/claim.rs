//! Statements of the paper beside the values computed here.

use serde::Serialize;

/// Origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Follows from an input fitted to this very number.
    Fitted,
    /// Follows from sizes and speeds by a formula.
    Computed,
    /// Result of simulated requests.
    Simulated,
    /// Not determined by the model.
    Absent,
}

impl Basis {
    /// Name of the origin in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Computed => "computed",
            Self::Simulated => "simulated",
            Self::Absent => "-",
        }
    }
}

/// Relation of a value to the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// As the paper's, within the tolerance.
    Near,
    /// At least the paper's, or below it within the tolerance.
    AtLeast,
    /// At most the paper's, without a tolerance.
    AtMost,
}

impl Relation {
    /// Prefix of the paper's value in reports.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Near => "",
            Self::AtLeast => ">= ",
            Self::AtMost => "<= ",
        }
    }
}

/// Tolerance in hundredths of the paper's value.
pub const TOLERANCE_PERCENT: u64 = 10;
/// Maximum tolerance of a value in percent, in points.
pub const TOLERANCE_POINTS: u64 = 5;
/// Unit of values in percent.
pub const PERCENT: &str = "%";

/// A statement of the paper, and the value computed here. Values are in hundredths of the unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TetrisClaim {
    /// Figure of the paper, or the section for text without a figure.
    pub figure: &'static str,
    /// Compared quantity.
    pub name: String,
    /// Unit of both values.
    pub unit: &'static str,
    /// The paper's value.
    pub paper: i64,
    /// Relation that the value must have to the paper's.
    pub relation: Relation,
    /// The value computed here, if there is one.
    pub here: Option<i64>,
    /// Origin of the value.
    pub basis: Basis,
    /// True if the value has the relation.
    pub met: bool,
    /// Reason why the value differs, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

/// A claim without the relation.
pub(super) struct Compared {
    pub(super) figure: &'static str,
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) paper: i64,
    pub(super) here: Option<i64>,
    pub(super) basis: Basis,
}

impl Compared {
    /// Completes the claim. `why` is the reason in case the value differs.
    pub(super) fn is(self, relation: Relation, why: &'static str) -> TetrisClaim {
        let met = self
            .here
            .is_some_and(|here| is_met(self.paper, relation, here, self.unit));
        TetrisClaim {
            figure: self.figure,
            name: self.name,
            unit: self.unit,
            paper: self.paper,
            relation,
            here: self.here,
            basis: self.basis,
            met,
            why: (!met).then_some(why),
        }
    }
}

/// Tolerance of a value, in hundredths of its unit.
fn tolerance(paper: i64, unit: &str) -> u64 {
    let relative = paper.unsigned_abs() * TOLERANCE_PERCENT / 100;
    if unit == PERCENT {
        relative.min(TOLERANCE_POINTS * 100)
    } else {
        relative
    }
}

fn is_met(paper: i64, relation: Relation, here: i64, unit: &str) -> bool {
    let within = here.abs_diff(paper) <= tolerance(paper, unit);
    match relation {
        Relation::Near => within,
        Relation::AtLeast => here >= paper || within,
        Relation::AtMost => here <= paper,
    }
}

/// Returns `part` of `all` in hundredths of a percent, or `None` if `all` is zero.
pub(super) fn share(part: i128, all: u64) -> Option<i64> {
    let share = (part * 10_000).checked_div(i128::from(all))?;
    i64::try_from(share).ok()
}

/// Returns the reduction from `before` to `after` in hundredths of a percent.
pub(super) fn less(before: u64, after: u64) -> Option<i64> {
    share(i128::from(before) - i128::from(after), before)
}

/// Returns `value` with two more digits, as claims have it.
pub(super) fn hundredths(value: u64) -> i64 {
    i64::try_from(value.saturating_mul(100)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_may_differ_by_a_tenth_and_by_five_points_at_most() {
        let met = |paper, here| is_met(paper, Relation::Near, here, PERCENT);
        assert!(met(9_300, 8_800) && !met(9_300, 8_799));
        assert!(met(440, 484) && !met(440, 485));
    }

    #[test]
    fn other_values_may_differ_by_a_tenth() {
        let met = |paper, here| is_met(paper, Relation::Near, here, "GB");
        assert!(met(6_150, 6_765) && !met(6_150, 6_766));
    }

    #[test]
    fn bounds_hold_in_one_direction() {
        assert!(is_met(400, Relation::AtMost, 0, PERCENT));
        assert!(!is_met(400, Relation::AtMost, 401, PERCENT));
        assert!(is_met(8_600, Relation::AtLeast, 10_000, PERCENT));
        assert!(!is_met(8_600, Relation::AtLeast, 8_000, PERCENT));
    }

    #[test]
    fn a_claim_without_a_value_has_a_reason() {
        let compared = Compared {
            figure: "14d",
            name: String::new(),
            unit: PERCENT,
            paper: 0,
            here: None,
            basis: Basis::Absent,
        };
        let claim = compared.is(Relation::AtMost, "not computed");
        assert_eq!((claim.met, claim.why), (false, Some("not computed")));
    }
}
