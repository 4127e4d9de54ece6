//! Table I of GPU-FaaS: models, their size in device memory, times of load and inference.

/// A row of the table: name, megabytes, load and inference in units of 10 ms.
pub(super) type Row = (&'static str, u64, u64, u64);

/// The table, in the order of size.
pub(super) const TABLE: [Row; 22] = [
    ("squeezenet1.1", 1269, 241, 128),
    ("resnet18", 1313, 252, 125),
    ("resnet34", 1357, 260, 125),
    ("squeezenet1.0", 1435, 232, 133),
    ("alexnet", 1437, 281, 125),
    ("resnext50.32x4d", 1555, 264, 129),
    ("densenet121", 1601, 249, 128),
    ("densenet169", 1631, 256, 130),
    ("densenet201", 1665, 267, 140),
    ("resnet50", 1701, 267, 128),
    ("resnet101", 1757, 295, 130),
    ("resnet152", 1827, 310, 131),
    ("densenet161", 1919, 275, 132),
    ("inception.v3", 2157, 442, 163),
    ("resnext101.32x8d", 2191, 351, 133),
    ("vgg11", 2903, 394, 129),
    ("wide_resnet50_2", 3611, 316, 131),
    ("wide_resnet101_2", 3831, 391, 132),
    ("vgg13", 3887, 398, 130),
    ("vgg16", 3907, 404, 127),
    ("vgg16.bn", 3907, 403, 126),
    ("vgg19", 3947, 407, 133),
];
