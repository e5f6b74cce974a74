from ramp_fixtures import assert_close, fill_with_ramp, ramp

__all__ = ["assert_close", "fill_with_ramp", "ramp"]
