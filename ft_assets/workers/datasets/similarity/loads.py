"""Eight bytes of an array at once, and other instructions that numba has no name for."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def load_8(typing: Any, data: Any, at: Any) -> Any:
    """Eight bytes from ``at`` on as a little-endian number, at any alignment."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def store_8(typing: Any, data: Any, at: Any, value: Any) -> Any:
    """Write a number to the eight bytes from ``at`` on, little-endian, at any alignment."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())
        builder.store(arguments[2], place, align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


@intrinsic
def prefetch(typing: Any, array: Any, at: Any) -> Any:
    """Tell the processor that this element will be read soon."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch.p0", fnty=kind)
        builder.call(function, [place, ir.Constant(number, 0), ir.Constant(number, 3), ir.Constant(number, 1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def trailing_zeros(typing: Any, value: Any) -> Any:
    """The number of low bits that are 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate
