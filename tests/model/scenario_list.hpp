#pragma once

namespace forebay::model {

// ring_scenarios.cpp
void one_after_the_other();
void two_decoders();
void leases_elsewhere();
void growing();
void planning();
void looking_ahead();
void reusing();
void busy_decoders();
void stopping();
void blocked_time();

// stream_scenarios.cpp
void streams();
void uses_together();
void tensors();
void run_ahead();
void failing_device();

// wait_scenarios.cpp
void waiting();
void taking_turns();
void signalling();
void records();

}  // namespace forebay::model
