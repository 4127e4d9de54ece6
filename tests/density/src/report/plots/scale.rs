//! Positions of values on an axis, and round values for its ticks.

/// An axis from one value to another, drawn from one position to another.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    from: f64,
    to: f64,
    begin: f64,
    end: f64,
    logarithmic: bool,
}

impl Scale {
    /// Creates a linear axis.
    pub fn linear((from, to): (f64, f64), (begin, end): (f64, f64)) -> Self {
        Self {
            from,
            to,
            begin,
            end,
            logarithmic: false,
        }
    }

    /// Creates a logarithmic axis; both values must be positive.
    pub fn logarithmic((from, to): (f64, f64), (begin, end): (f64, f64)) -> Self {
        Self {
            from: from.ln(),
            to: to.ln(),
            begin,
            end,
            logarithmic: true,
        }
    }

    /// Position of a value.
    pub fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.ln() } else { value };
        let span = self.to - self.from;
        if span == 0.0 {
            return self.begin;
        }
        self.begin + (value - self.from) / span * (self.end - self.begin)
    }
}

/// Round values from 0 to at least `most`, about `count` of them.
pub fn round_ticks(most: f64, count: usize) -> Vec<f64> {
    let raw = (most / count as f64).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|f| f * power)
        .find(|step| *step >= raw);
    let step = step.unwrap_or(10.0 * power);
    let ticks = (most / step).ceil().max(1.0) as usize;
    (0..=ticks).map(|tick| tick as f64 * step).collect()
}

/// Powers of ten that enclose all values.
pub fn decades(least: f64, most: f64) -> Vec<f64> {
    let first = least.log10().floor() as i32;
    let last = (most.log10().ceil() as i32).max(first + 1);
    (first..=last).map(|power| 10f64.powi(power)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_proportional() {
        let linear = Scale::linear((0.0, 10.0), (100.0, 0.0));
        assert_eq!((linear.place(0.0), linear.place(5.0)), (100.0, 50.0));
        let log = Scale::logarithmic((1.0, 100.0), (0.0, 50.0));
        assert!((log.place(10.0) - 25.0).abs() < 1e-9);
        assert!((Scale::linear((1.0, 1.0), (7.0, 9.0)).place(1.0) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn ticks_enclose_the_values() {
        assert_eq!(round_ticks(6.55, 5), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(round_ticks(0.0, 5).len(), 2);
        assert_eq!(
            decades(0.3, 1400.0),
            [0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0]
        );
        assert_eq!(decades(1.0, 1.0), [1.0, 10.0]);
    }
}
