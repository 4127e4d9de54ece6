//! Messages of KEDA's external scaler: package `externalscaler`, with the field numbers of
//! `pkg/scalers/externalscaler/externalscaler.proto` (<https://github.com/kedacore/keda>). The
//! decoder skips other fields, as protobuf requires.
//!
//! The integers `targetSize` and `metricValue` are deprecated in favor of the floating-point fields
//! beside them. KEDA reads the floating-point field if it is above zero, and the integer otherwise.
//! Older versions read only the integer, so the server sends both.

use std::collections::HashMap;

/// The ScaledObject of a call.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScaledObjectRef {
    /// Name of the ScaledObject.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Namespace of the ScaledObject and of the function.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// The trigger's metadata, as in the ScaledObject.
    #[prost(map = "string, string", tag = "3")]
    pub scaler_metadata: HashMap<String, String>,
}

/// Activity of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct IsActiveResponse {
    /// True if at least one instance is decided.
    #[prost(bool, tag = "1")]
    pub result: bool,
}

/// Metrics for the autoscaler.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricSpecResponse {
    /// The metrics.
    #[prost(message, repeated, tag = "1")]
    pub metric_specs: Vec<MetricSpec>,
}

/// A metric and its target per instance.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricSpec {
    /// Name of the metric.
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// Target per instance.
    #[prost(int64, tag = "2")]
    pub target_size: i64,
    /// The same target as a floating-point number.
    #[prost(double, tag = "3")]
    pub target_size_float: f64,
}

/// Request for a metric's value.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetMetricsRequest {
    /// The ScaledObject.
    #[prost(message, optional, tag = "1")]
    pub scaled_object_ref: Option<ScaledObjectRef>,
    /// Name of the metric, without KEDA's prefix.
    #[prost(string, tag = "2")]
    pub metric_name: String,
}

/// Values of metrics.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricsResponse {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub metric_values: Vec<MetricValue>,
}

/// The value of a metric.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricValue {
    /// Name of the metric.
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// Value of the metric.
    #[prost(int64, tag = "2")]
    pub metric_value: i64,
    /// The same value as a floating-point number.
    #[prost(double, tag = "3")]
    pub metric_value_float: f64,
}
