//! Load of a function as the operator sees it: a mean over a span that ends with the last scrape.

use std::collections::VecDeque;

use tetris_scaler_core::Rate;

use super::SECOND_US;

/// Requests by interval between scrapes.
///
/// Like `rate(...[1m])` in Prometheus, the load is a mean, and it knows nothing of requests after
/// the last scrape. Before the start of the simulation requests came at their mean.
#[derive(Clone, Debug)]
pub(super) struct LoadMeter {
    scrape_s: u64,
    /// Number of intervals of the mean.
    span: usize,
    before: Rate,
    /// Requests of each interval; the last one is not scraped yet. At most `span` and one.
    counts: VecDeque<u64>,
    /// Number of the last interval.
    interval: u64,
}

impl LoadMeter {
    pub(super) fn new(scrape_s: u64, window_s: u64, before: Rate) -> Self {
        Self {
            scrape_s,
            span: (window_s / scrape_s).max(1) as usize,
            before,
            counts: VecDeque::from([0]),
            interval: 0,
        }
    }

    pub(super) fn arrived(&mut self, now_us: u64) {
        self.advance(now_us);
        if let Some(count) = self.counts.back_mut() {
            *count += 1;
        }
    }

    /// Returns the load at `now_us`.
    pub(super) fn load(&mut self, now_us: u64) -> Rate {
        self.advance(now_us);
        let scraped = self.counts.len().saturating_sub(1);
        let requests: u64 = self.counts.iter().take(scraped).sum();
        let missing = self.span.saturating_sub(scraped) as u64;
        let before = u128::from(self.before.micro_rps()) * u128::from(missing * self.scrape_s);
        let micro = u128::from(requests) * 1_000_000 + before;
        let span_s = (self.span as u64).saturating_mul(self.scrape_s).max(1);
        Rate::from_micro_rps(u64::try_from(micro / u128::from(span_s)).unwrap_or(u64::MAX))
    }

    fn advance(&mut self, now_us: u64) {
        let interval = now_us / (self.scrape_s * SECOND_US);
        while self.interval < interval {
            self.interval += 1;
            self.counts.push_back(0);
            if self.counts.len() > self.span + 1 {
                self.counts.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_seen_after_a_scrape_and_only_as_a_part_of_the_mean() {
        let mut meter = LoadMeter::new(15, 60, Rate::from_rps(10));
        assert_eq!(meter.load(0), Rate::from_rps(10));
        for number in 0..600 {
            meter.arrived(5 * SECOND_US + number);
        }
        assert_eq!(meter.load(14 * SECOND_US), Rate::from_rps(10));
        // 600 requests in one of four intervals, and 10 a second in the three before.
        let expected = Rate::from_micro_rps(17_500_000);
        assert_eq!(meter.load(15 * SECOND_US), expected);
        assert_eq!(meter.load(74 * SECOND_US), Rate::from_rps(10));
        assert_eq!(meter.load(75 * SECOND_US), Rate::ZERO);
    }
}
