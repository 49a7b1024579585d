"""ONNX's own rules, in processes of their own.

A crafted model makes ONNX's shape inference and inliner read through null pointers, loop for ever and take all memory
(all seen with 1.23), and anyone may send one. So no model of a user's ever meets them in the process that answers HTTP.
"""
