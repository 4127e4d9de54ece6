//! Lookup of figures in the reports.

use crate::data::{GroupPoint, MethodReport, StartSummary, WorkloadReport};
use crate::methods::Method;

/// Finds the report of a group by name.
pub fn workload<'a>(workloads: &'a [WorkloadReport], name: &str) -> Option<&'a WorkloadReport> {
    workloads.iter().find(|workload| workload.name == name)
}

/// Finds a method's report within a group.
pub fn method(workload: &WorkloadReport, method: Method) -> Option<&MethodReport> {
    workload
        .methods
        .iter()
        .find(|report| report.method == method)
}

/// Finds the group at a size.
pub fn point(workload: &WorkloadReport, of: Method, instances: usize) -> Option<&GroupPoint> {
    method(workload, of)?
        .group
        .iter()
        .find(|point| point.instances == instances)
}

/// The largest size at which all of these methods were measured.
pub fn largest_common(workload: &WorkloadReport, methods: &[Method]) -> Option<usize> {
    let reports = methods
        .iter()
        .map(|&of| method(workload, of))
        .collect::<Option<Vec<_>>>()?;
    let sizes = |report: &MethodReport| {
        report
            .group
            .iter()
            .map(|point| point.instances)
            .collect::<Vec<_>>()
    };
    let first = sizes(reports.first()?);
    first
        .into_iter()
        .rev()
        .find(|size| reports.iter().all(|report| sizes(report).contains(size)))
}

/// Starts of a method: repeated starts if there are any, else first ones.
pub fn usual_starts(workload: &WorkloadReport, of: Method) -> Option<&StartSummary> {
    let report = method(workload, of)?;
    report.repeated.as_ref().or(report.first.as_ref())
}

/// Median time to attach and touch, in nanoseconds.
pub fn attach_and_touch(workload: &WorkloadReport, of: Method) -> Option<f64> {
    usual_starts(workload, of).map(|starts| starts.attach_and_touch_ns.median)
}
