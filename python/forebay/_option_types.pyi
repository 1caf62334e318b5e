# Written by python/tests/test_options.py with FOREBAY_WRITE_PAGES=1, from the table of keys.
import os
from collections.abc import Mapping
from typing import Any, TypedDict

class Options(TypedDict, total=False):
    """The options of forebay.Feeder: each key by its name, and with its section before it."""

    seed: Any
    device: str | os.PathLike[str]
    on_bad: str
    max_bad: float | str
    epochs: int
    run_epochs: int
    steps: int
    run_steps: int
    eval: bool
    run_eval: bool
    format: str
    dataset_format: str
    path: str | os.PathLike[str]
    dataset_path: str | os.PathLike[str]
    labels: str | os.PathLike[str]
    dataset_labels: str | os.PathLike[str]
    classes: Any
    dataset_classes: Any
    samples: str
    dataset_samples: str
    difficult: bool
    dataset_difficult: bool
    index: str | os.PathLike[str]
    dataset_index: str | os.PathLike[str]
    batch_size: int
    dataset_batch_size: int
    shuffle: bool
    dataset_shuffle: bool
    order: str
    dataset_order: str
    window: int
    dataset_window: int
    dataset_run: int
    nodes: int
    dataset_nodes: int
    exchange: float
    dataset_exchange: float
    drop_last: bool
    dataset_drop_last: bool
    split: Any
    dataset_split: Any
    part: int
    dataset_part: int
    fraction: float
    dataset_fraction: float
    weights: str | os.PathLike[str]
    dataset_weights: str | os.PathLike[str]
    frames: int
    clip_frames: int
    stride: int
    clip_stride: int
    start: str
    clip_start: str
    every: int
    clip_every: int
    short_videos: str
    clip_short_videos: str
    segment: str | os.PathLike[str]
    clip_segment: str | os.PathLike[str]
    unit: str
    clip_unit: str
    crop: str
    transform_crop: str
    size: Any
    transform_size: Any
    resize: Any
    transform_resize: Any
    padding: Any
    transform_padding: Any
    fill: Any
    transform_fill: Any
    scale: Any
    transform_scale: Any
    ratio: Any
    transform_ratio: Any
    center_fraction: float
    transform_center_fraction: float
    mirror: float
    transform_mirror: float
    views: int
    transform_views: int
    mean: Any
    transform_mean: Any
    std: Any
    transform_std: Any
    layout: str
    transform_layout: str
    dtype: str
    transform_dtype: str
    channels: int
    transform_channels: int
    exif: bool
    transform_exif: bool
    max_pixels: int
    transform_max_pixels: int
    transform_decode: str
    when: str
    transform_when: str
    canvas: Any
    transform_canvas: Any
    operations: Any
    transform_operations: Any
    brightness: float
    colour_brightness: float
    contrast: float
    colour_contrast: float
    saturation: float
    colour_saturation: float
    hue: float
    colour_hue: float
    grey: float
    colour_grey: float
    blur_probability: float
    sigma: Any
    blur_sigma: Any
    solarise_probability: float
    threshold: int
    solarise_threshold: int
    erase_probability: float
    area: Any
    erase_area: Any
    mixup_probability: float
    mixup_alpha: float
    cutmix_probability: float
    cutmix_alpha: float
    io: float | str
    workers_io: float | str
    workers_decode: float | str
    workers_bytes: int | str
    hedge: str
    workers_hedge: str
    direct: bool
    workers_direct: bool
    jpeg: str
    workers_jpeg: str
    capacity: float | str
    queue_capacity: float | str
    memory: int | str
    queue_memory: int | str
    pool: float | str
    queue_pool: float | str
    max_leases: int
    queue_max_leases: int
    run_ahead: int
    queue_run_ahead: int
    name: str | os.PathLike[str]
    policy_name: Any
    interval: int
    policy_interval: int
    low: float
    policy_low: float
    high: float
    policy_high: float
    beta: float
    policy_beta: float
    max_uses: float | str
    policy_max_uses: float | str
    on_max_uses: str
    policy_on_max_uses: str
    pick: str
    policy_pick: str
    max_wait_ms: float
    policy_max_wait_ms: float
    watchdog_s: float
    policy_watchdog_s: float
    recording: str | os.PathLike[str]
    policy_recording: str | os.PathLike[str]
    mode: str
    mpi_mode: str
    lag: int
    mpi_lag: int
    virtual_shards: int
    mpi_virtual_shards: int
    epoch_end: str
    mpi_epoch_end: str
    latency_ms: float
    storage_latency_ms: float
    jitter: float
    storage_jitter: float
    slow_rate: float
    storage_slow_rate: float
    slow_ms: float
    storage_slow_ms: float
    bandwidth_mb_s: float
    storage_bandwidth_mb_s: float
    burst_mb: float
    storage_burst_mb: float
    scope: str
    storage_scope: str
    outage_every_s: float
    storage_outage_every_s: float
    outage_s: float
    storage_outage_s: float
    fail_rate: float
    storage_fail_rate: float
    cache_dir: str | os.PathLike[str]
    cache_bytes: int | str
    files: str
    cache_files: str
    telemetry_dir: str | os.PathLike[str]
    per_step: bool
    telemetry_per_step: bool
    decisions: bool
    telemetry_decisions: bool
    interval_s: float
    telemetry_interval_s: float
    max_bytes: int | str
    telemetry_max_bytes: int | str
    live: str
    telemetry_live: str
    prometheus: str | os.PathLike[str]
    telemetry_prometheus: str | os.PathLike[str]
    step_ms: float
    trainer_step_ms: float
    step_distribution: str
    trainer_step_distribution: str
    allreduce_bytes: int | str
    trainer_allreduce_bytes: int | str
    policy: Any
    cache: str | os.PathLike[str]
    run: Mapping[str, Any]
    clip: Mapping[str, Any]
    transform: Mapping[str, Any]
    colour: Mapping[str, Any]
    blur: Mapping[str, Any]
    solarise: Mapping[str, Any]
    erase: Mapping[str, Any]
    mixup: Mapping[str, Any]
    cutmix: Mapping[str, Any]
    workers: Mapping[str, Any]
    queue: Mapping[str, Any]
    mpi: Mapping[str, Any]
    storage: Mapping[str, Any]
    telemetry: Mapping[str, Any]
    trainer: Mapping[str, Any]
    fields: Mapping[str, Any]
