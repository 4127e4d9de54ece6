//! Choice of an instance for the first request of the queue.

use std::collections::BTreeMap;

use crate::id::InstanceId;
use crate::instance::Instance;
use crate::rules::Rules;
use crate::waiting::Request;

/// An instance for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) instance: InstanceId,
    /// True if its result is expected after the request's deadline.
    pub(crate) late: bool,
}

/// Returns the instance for `request` among those with room that it may go to. An instance that
/// could not be reached for it comes last; then one that is too slow for its deadline. A batch that waits for requests
/// comes before an instance that would start another one: both results come in time, and full
/// batches leave more capacity. At the end, the least outstanding requests for the capacity count.
pub(crate) fn choose(
    instances: &BTreeMap<InstanceId, Instance>,
    request: &Request,
    now_us: u64,
    rules: &Rules,
    waiting: usize,
) -> Option<Choice> {
    let mut best: Option<(InstanceId, &Instance, [bool; 3])> = None;
    for (&id, one) in instances {
        if !request.allows(id) || one.free(now_us, rules, waiting) == 0 {
            continue;
        }
        let late = now_us.saturating_add(one.estimate_us(now_us)) > request.deadline_us;
        let starts_another = !one.has_open_batch(now_us);
        let against = [request.avoid == Some(id), late, starts_another];
        let better = best.is_none_or(|(_, other, its)| {
            let order = against.cmp(&its);
            let order = order.then_with(|| one.compare_load(other, now_us, rules));
            order.then(one.given.cmp(&other.given)).is_lt()
        });
        if better {
            best = Some((id, one, against));
        }
    }
    best.map(|(instance, _, [_, late, _])| Choice { instance, late })
}
