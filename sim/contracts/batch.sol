// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// Pays many in one call, all or none. With `failLast` it does all the work and reverts at the very end: every line looked
/// paid on the way, nothing moved. It has no receive function, so a plain native transfer to it reverts.
contract Batch {
    function payNative(address[] calldata to, uint256[] calldata amounts, bool failLast) external payable {
        require(to.length == amounts.length, "lengths differ");
        uint256 left = msg.value;
        for (uint256 i = 0; i < to.length; i++) {
            require(left >= amounts[i], "value too small");
            left -= amounts[i];
            (bool paid, ) = to[i].call{value: amounts[i]}("");
            require(paid, "a receiver refused");
        }
        require(left == 0, "value too large");
        require(!failLast, "told to fail at the end");
    }

    /// The caller must have approved this contract. Accepts tokens that return nothing, as USDT does.
    function payToken(address token, address[] calldata to, uint256[] calldata amounts, bool failLast) external {
        require(to.length == amounts.length, "lengths differ");
        for (uint256 i = 0; i < to.length; i++) {
            (bool called, bytes memory answer) = token.call(
                abi.encodeWithSignature("transferFrom(address,address,uint256)", msg.sender, to[i], amounts[i])
            );
            require(called && (answer.length == 0 || abi.decode(answer, (bool))), "the token refused");
        }
        require(!failLast, "told to fail at the end");
    }
}
