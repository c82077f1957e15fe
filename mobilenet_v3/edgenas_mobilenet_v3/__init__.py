"""MobileNetV3 as in Once-for-All: elastic side, depth, kernel and expansion."""
