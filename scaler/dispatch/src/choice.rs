//! Choice of an instance for the first request of the queue.

use std::collections::BTreeMap;

use crate::dispatcher::InstanceId;
use crate::instance::Instance;
use crate::rules::Rules;
use crate::waiting::Request;

/// Returns the instance for `request` among those with room that it may go to. An instance that could not be reached
/// for it comes last; then one that is too slow for its deadline. A batch that waits for requests
/// comes before an instance that would start another one: both results come in time, and full
/// batches leave more capacity. At the end, the least outstanding requests for the capacity count.
pub(crate) fn choose(
    instances: &BTreeMap<InstanceId, Instance>,
    request: &Request,
    now_us: u64,
    rules: &Rules,
) -> Option<InstanceId> {
    let with_room = instances
        .iter()
        .filter(|&(&id, one)| request.allows(id) && one.has_room(rules));
    let best = with_room.min_by_key(|&(&id, one)| {
        let avoided = request.avoid == Some(id);
        let late = now_us.saturating_add(one.estimate_us(now_us)) > request.deadline_us;
        let starts_another = !one.has_open_batch(now_us);
        (
            avoided,
            late,
            starts_another,
            one.load_us(now_us, rules),
            one.given,
            id,
        )
    });
    best.map(|(&id, _)| id)
}
